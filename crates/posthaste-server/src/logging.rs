//! Logs: JSON in production, text on a terminal, never on stdout.
