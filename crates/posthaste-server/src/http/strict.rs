//! What every request must be before a handler reads it: one rule for all routes, and so for all stores.
//!
//! * An HTTP/1.1 request has one `Host`, and no request has two (RFC 9112 §3.2).
//! * A request does not have both `Transfer-Encoding` and `Content-Length` (see [`super::head`]).
//! * Path and query are UTF-8 without NUL once they are decoded. Postgres has no text with a NUL, so a
//!   statement with such a value fails there; and no store has an event that such a value could match.

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::problem::{Kind, Problem};
use super::publish::percent;

/// Marks a request whose head has both `Transfer-Encoding` and `Content-Length`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TwoLengths;

/// Answers 400 to a request that is not well-formed.
pub(super) async fn need_well_formed(request: Request, next: Next) -> Response {
    match mistake(&request) {
        Some(detail) => Problem::new(Kind::Malformed, detail).into_response(),
        None => next.run(request).await,
    }
}

fn mistake(request: &Request) -> Option<&'static str> {
    if request.extensions().get::<TwoLengths>().is_some() {
        return Some("the request has both Transfer-Encoding and Content-Length; send one of them");
    }
    if !has_host(request.version(), request.headers()) {
        return Some("the request must have exactly one Host header that is a host's name and port");
    }
    if !is_text(request.uri()) {
        return Some("the path and the query must be percent-encoded UTF-8 without %00");
    }
    None
}

fn has_host(version: Version, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        // Older than the header.
        (None, _) => version <= Version::HTTP_10,
        // Empty where the target has no authority.
        (Some(host), None) => host.is_empty() || is_authority(host.as_bytes()),
        (Some(_), Some(_)) => false,
    }
}

fn is_authority(host: &[u8]) -> bool {
    !host.contains(&b'@') && Authority::try_from(host).is_ok()
}

fn is_text(uri: &Uri) -> bool {
    [uri.path(), uri.query().unwrap_or_default()].into_iter().all(|part| {
        let bytes = percent::unescaped(part.as_bytes());
        !bytes.contains(&0) && std::str::from_utf8(&bytes).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_1_1_request_has_exactly_one_host() {
        for (version, hosts, is_fine) in [
            (Version::HTTP_11, &["localhost:7070"][..], true),
            (Version::HTTP_11, &["[::1]:7070"], true),
            (Version::HTTP_11, &[""], true),
            (Version::HTTP_11, &[], false),
            (Version::HTTP_11, &["a", "a"], false),
            (Version::HTTP_11, &["a b"], false),
            (Version::HTTP_11, &["a/b"], false),
            (Version::HTTP_11, &["user@a"], false),
            (Version::HTTP_10, &[], true),
            (Version::HTTP_10, &["a", "b"], false),
        ] {
            let mut map = HeaderMap::new();
            for host in hosts {
                map.append(header::HOST, host.parse().unwrap());
            }
            assert_eq!(has_host(version, &map), is_fine, "{version:?} {hosts:?}");
        }
    }

    #[test]
    fn paths_and_queries_are_text_without_nul() {
        for (uri, is_fine) in [
            ("/v1/events/a%20b?key=%E2%82%AC&error=100%", true),
            ("/v1/events/%2500", true),
            ("/v1/events/%00", false),
            ("/v1/events/%ff", false),
            ("/v1/events?key=a%00", false),
            ("/v1/events?k%00y=a", false),
            ("/v1/events?key=%C3%28", false),
            ("/v1/events?key=%ED%A0%80", false),
        ] {
            assert_eq!(is_text(&uri.parse().unwrap()), is_fine, "{uri}");
        }
    }
}
