//! Stores, and the one place where a store's URL is opened.
