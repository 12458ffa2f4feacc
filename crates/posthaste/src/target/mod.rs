//! Targets, and the one place where a target's URL is opened.
