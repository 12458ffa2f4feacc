//! What Postgres says, in our words: who must act, and what to do.

use std::error::Error as _;

use deadpool_postgres::PoolError;
use posthaste_core::{Error, ErrorKind};
use rustls::CertificateError;

/// What a statement answers.
pub(super) type Db<T> = std::result::Result<T, tokio_postgres::Error>;

/// Translates an error of the database or of the way to it. Never shows the address, which may hold a password.
pub(super) fn explain(error: tokio_postgres::Error) -> Error {
    let (kind, message) = match error.as_db_error() {
        Some(db) => meaning(db.code().code(), db.message()),
        None => match handshake(&error) {
            Some((kind, message)) => (kind, message.to_owned()),
            None if is_unreadable(&error) => {
                (ErrorKind::Corrupt, "the database holds something that cannot be read".to_owned())
            }
            None => (ErrorKind::Unavailable, "the database cannot be reached".to_owned()),
        },
    };
    Error::new(kind, message).because(error)
}

/// What failed before the server heard who we are: what it offers, its certificate, ours, a missing password.
fn handshake(error: &tokio_postgres::Error) -> Option<(ErrorKind, &'static str)> {
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    if text.contains("password missing") {
        return Some((
            ErrorKind::Config,
            "the server wants a password and the store URL has none; write postgres://USER:PASSWORD@HOST/DATABASE, or \
             put the URL in a file and name it with store.url_file",
        ));
    }
    if text.contains("server does not support TLS") {
        return Some((
            ErrorKind::Config,
            "the server offers no TLS; turn on ssl there or, where the network is private, write sslmode=disable in the \
             store URL",
        ));
    }
    let cause = error.source()?.downcast_ref::<std::io::Error>()?.get_ref()?;
    let message = match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(wrong) => certificate(wrong),
        rustls::Error::AlertReceived(_) => {
            "the server ended the TLS handshake; it may want a client certificate that it trusts: sslcert=FILE and \
             sslkey=FILE in the store URL"
        }
        _ => return None,
    };
    Some((ErrorKind::Config, message))
}

fn certificate(wrong: &CertificateError) -> &'static str {
    use CertificateError as Wrong;
    match wrong {
        Wrong::UnknownIssuer | Wrong::BadSignature => {
            "the server's certificate is of a CA that is not trusted here; name the right CA with sslrootcert=FILE in \
             the store URL or store.tls_ca"
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            "the server's certificate is for another host name; use the name that it is for in the store URL, or give \
             the server a certificate for this one"
        }
        Wrong::Expired | Wrong::ExpiredContext { .. } => {
            "the server's certificate has expired; renew it on the server"
        }
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; look at the clocks of both machines"
        }
        Wrong::Revoked => "the server's certificate was revoked; give the server a new one",
        _ => {
            "the server's certificate cannot be used; give the server one that its CA has signed for its host name"
        }
    }
}

/// A column that is not what it must be; the driver has no other name for it.
fn is_unreadable(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error deserializing column") || text.starts_with("invalid column")
}

fn meaning(code: &str, said: &str) -> (ErrorKind, String) {
    match code {
        "42P01" | "42703" | "42883" | "3F000" => (
            ErrorKind::Config,
            format!(
                "the tables are missing or not as expected ({said}); run `posthaste migrate up`, or look at store.prefix \
                 and the database's name if they should be there"
            ),
        ),
        "42501" => (
            ErrorKind::Config,
            format!(
                "this user lacks a right ({said}); `posthaste migrate print --roles` prints the GRANTs that each user needs"
            ),
        ),
        "25006" => (
            ErrorKind::Unavailable,
            format!("the server takes no changes ({said}); it may be a standby: name the primary"),
        ),
        "53300" => (
            ErrorKind::Unavailable,
            format!(
                "the server has no connection left ({said}); raise max_connections or this user's CONNECTION LIMIT, or \
                 use a pooler"
            ),
        ),
        "55P03" => (
            ErrorKind::Unavailable,
            format!(
                "somebody else holds a lock for longer than store.lock_timeout ({said}); look at pg_stat_activity"
            ),
        ),
        "57014" => (
            ErrorKind::Unavailable,
            format!(
                "a statement took longer than store.statement_timeout, or than statement_timeout of the server or of \
                 this user allows ({said}); raise it, or look for what keeps the server busy"
            ),
        ),
        "23505" => (ErrorKind::Conflict, format!("it exists already ({said})")),
        _ => match &code[..2.min(code.len())] {
            "28" if said.contains("no encryption") || said.contains("SSL off") => (
                ErrorKind::Config,
                format!("the server refuses the login in plain text ({said}); write sslmode=require"),
            ),
            "28" => (
                ErrorKind::Config,
                format!("the server refuses the login ({said}); look at user and password of the store URL"),
            ),
            "3D" => (
                ErrorKind::Config,
                format!("{said}; make it with CREATE DATABASE, or name another one in the store URL"),
            ),
            "22" | "23" => (ErrorKind::Rejected, format!("the database refuses a value: {said}")),
            "XX" => (ErrorKind::Corrupt, format!("the server found something broken: {said}")),
            "42" | "0A" => (ErrorKind::Config, format!("the server does not understand us: {said}")),
            // Shutting down, starting up, out of memory, a deadlock, a timeout: all pass.
            _ => (ErrorKind::Unavailable, format!("the server cannot do it now: {said}")),
        },
    }
}

/// Translates why no connection could be had.
pub(super) fn no_connection(error: PoolError) -> Error {
    match error {
        PoolError::Backend(error) => explain(error),
        PoolError::Timeout(_) => Error::unavailable("no connection to the database came free in time"),
        other => Error::unavailable("no connection to the database").because(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_who_must_act() {
        assert_eq!(meaning("42P01", "x").0, ErrorKind::Config);
        assert!(meaning("42P01", "x").1.contains("migrate up"));
        assert_eq!(meaning("57P01", "x").0, ErrorKind::Unavailable);
        assert_eq!(meaning("22021", "x").0, ErrorKind::Rejected);
    }
}
