//! What a caller reads when a request fails: problem+json (RFC 9457), and the one table of statuses.
//!
//! `detail` is a sentence that says what to do. It never holds SQL, paths, host names or the text of an unexpected error:
//! those are logged, not answered.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use posthaste::{Error, ErrorKind};
use std::error::Error as _;

use super::wire;

/// The media type of every error.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request failed. The table of statuses is [`Kind::row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request cannot be read: not JSON, a bad query, a bad header.
    Malformed,
    /// No key, or one that is not known.
    Unauthorized,
    /// The key is known, and may not do that.
    Forbidden,
    /// It cannot be undone, and nobody said that it shall be done.
    ConsentNeeded,
    /// What was asked for is not there.
    NotFound,
    /// The path is there, the method is not.
    MethodNotAllowed,
    /// The body did not come in time.
    BodyTimeout,
    /// Same source and id, other contents; or an id that several sources use.
    Conflict,
    /// The payload, the body or the batch is over its limit.
    TooLarge,
    /// The body's media type is none of those that are understood.
    UnsupportedMediaType,
    /// It was read, and is not an event: a member is missing, unknown, or of the wrong kind.
    Invalid,
    /// Something is wrong here; the log says what.
    Internal,
    /// The store is away or busy.
    Unavailable,
}

impl Kind {
    /// The table: status, the last part of `type`, and `title`.
    pub fn row(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Malformed => (StatusCode::BAD_REQUEST, "malformed", "The request cannot be read"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "unauthorized", "A valid API key is needed"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "This key may not do that"),
            Self::ConsentNeeded => {
                (StatusCode::PRECONDITION_REQUIRED, "consent-needed", "This cannot be undone")
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "Not found"),
            Self::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed here")
            }
            Self::BodyTimeout => {
                (StatusCode::REQUEST_TIMEOUT, "body-timeout", "The body did not come in time")
            }
            Self::Conflict => (StatusCode::CONFLICT, "conflict", "It conflicts with what is there"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "Over the limit"),
            Self::UnsupportedMediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media-type",
                "The media type is not understood",
            ),
            Self::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "The event cannot be accepted"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal", "The server failed"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Try again later"),
        }
    }
}

/// A failed request: its kind and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    kind: Kind,
    detail: String,
}

impl Problem {
    /// A problem of this kind; `detail` is a sentence that says what to do.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// Why the request failed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Says which event of a batch this is about, counted from 1.
    #[must_use]
    pub fn in_event(mut self, number: usize) -> Self {
        self.detail = format!("event {number} of the batch: {}", self.detail);
        self
    }

    /// As the JSON document that is answered.
    pub fn document(&self) -> wire::ProblemDocument {
        let (status, slug, title) = self.kind.row();
        wire::ProblemDocument {
            problem_type: format!("urn:posthaste:problem:{slug}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
        }
    }
}

/// Whether it is Posthaste alone that speaks: a message with a cause may carry a driver's words, and those are not answered.
pub(super) fn is_own_words(error: &Error) -> bool {
    error.source().is_none()
}

/// What the store says, as far as it is the caller's business. The rest is logged.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let own_words = is_own_words(&error);
        let kind = match error.kind() {
            ErrorKind::Conflict => Kind::Conflict,
            ErrorKind::TooLarge if own_words => Kind::TooLarge,
            ErrorKind::Rejected if own_words => Kind::Invalid,
            ErrorKind::NotFound => Kind::NotFound,
            ErrorKind::Unavailable => Kind::Unavailable,
            _ => Kind::Internal,
        };
        if matches!(kind, Kind::Internal | Kind::Unavailable) {
            tracing::error!(error = %error, "a request failed");
        }
        let detail = match kind {
            Kind::Conflict => {
                "an event with this source and id exists with other contents; nothing of this request was stored. Use a new id for a new event".to_owned()
            }
            Kind::NotFound => "what was asked for is not there".to_owned(),
            Kind::Unavailable => {
                "the store cannot do this now; send the request again later, with the same ids (the server's log says why)"
                    .to_owned()
            }
            Kind::Internal => "the server's log says what went wrong; tell whoever operates it".to_owned(),
            _ => error.to_string(),
        };
        Self { kind, detail }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, ..) = self.kind.row();
        let body = serde_json::to_vec(&self.document()).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        match self.kind {
            Kind::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Kind::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // The rest of the body is not read, so nothing else can follow on this connection.
            Kind::BodyTimeout => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_words_are_not_answered() {
        let sql = std::io::Error::other("UNIQUE constraint failed: posthaste_events.event_id");
        for error in [
            Error::rejected("insert").because(std::io::Error::other("SELECT secret")),
            Error::unavailable("open /var/lib/posthaste.db: disk I/O error"),
            Error::corrupt("posthaste_events has no column seq"),
            Error::conflict("insert").because(sql),
        ] {
            let detail = Problem::from(error).document().detail;
            for leak in ["SELECT", "posthaste_events", "/var/lib", "constraint"] {
                assert!(!detail.contains(leak), "{detail}");
            }
        }
    }

    #[test]
    fn our_own_words_reach_the_caller() {
        let problem = Problem::from(Error::rejected("the type is empty; every event needs one"));
        assert_eq!(problem.kind(), Kind::Invalid);
        assert_eq!(problem.document().detail, "the type is empty; every event needs one");
        assert_eq!(problem.document().status, 422);
    }
}
