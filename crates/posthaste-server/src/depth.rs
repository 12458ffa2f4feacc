//! The limit on how deep a JSON payload is nested.
//!
//! Many JSON readers recurse, so a payload that is nested 100,000 deep ends the process that reads it. REST
//! and the command line refuse such an event when it is published. Events that come by SQL or through the
//! library are not checked, and payloads of other content types are opaque.
//!
//! The scan walks over the bytes once: it builds no tree, does not recurse, and stops at the limit. It does
//! not check that the payload is valid JSON. In a payload that is not, it counts the brackets outside of
//! strings all the same.

use posthaste::envelope::Envelope;
use posthaste::{Error, Result};

use crate::http::wire::is_json;

/// Checks that a payload with a JSON content type is nested at most `depth_max` deep.
///
/// # Errors
/// `Rejected`, with the limit and its setting.
pub(crate) fn check(event: &Envelope, depth_max: usize) -> Result<()> {
    if is_json(&event.content_type) && is_deeper(&event.payload, depth_max) {
        return Err(Error::rejected(format!(
            "the payload is JSON that is nested deeper than {depth_max} arrays and objects (server.json_depth_max), \
             which many readers cannot read; publish flatter data"
        )));
    }
    Ok(())
}

/// Whether more than `depth_max` arrays and objects stand inside one another somewhere.
fn is_deeper(json: &[u8], depth_max: usize) -> bool {
    let (mut depth, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    for byte in json {
        if is_in_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_in_string = true,
            b'[' | b'{' if depth == depth_max => return true,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_arrays_and_objects_that_stand_inside_one_another() {
        for (json, depth) in [
            ("", 0),
            ("1", 0),
            ("\"[[[[\"", 0),
            (r#""\"[[""#, 0),
            (r#""\\"[]"#, 1),
            ("[]", 1),
            ("[[],[],{}]", 2),
            (r#"{"a":{"b":[1,2]},"c":[]}"#, 3),
            (r#"{"[[[[":1}"#, 1),
            ("[[[", 3),
            ("]]]][", 1),
        ] {
            assert!(!is_deeper(json.as_bytes(), depth), "{json} at {depth}");
            assert!(depth == 0 || is_deeper(json.as_bytes(), depth - 1), "{json} at {}", depth - 1);
        }
    }

    #[test]
    fn only_json_content_types_are_bound() {
        let check = |content_type: &str, depth: usize| {
            let mut event = Envelope::new("x", "[".repeat(depth) + &"]".repeat(depth));
            event.content_type = content_type.to_owned();
            check(&event, 128)
        };
        for json in ["application/json", "Application/JSON; charset=utf-8", "application/vnd.shop+json;v=1"] {
            assert!(check(json, 128).is_ok(), "{json}");
            let error = check(json, 129).unwrap_err().to_string();
            assert!(error.contains("deeper than 128") && error.contains("server.json_depth_max"), "{error}");
        }
        for other in ["text/plain", "application/octet-stream", "application/xml"] {
            assert!(check(other, 1_000_000).is_ok(), "{other}");
        }
    }

    #[test]
    fn a_payload_of_the_largest_size_is_scanned_without_recursion() {
        assert!(is_deeper(&vec![b'['; 64 << 20], (64 << 20) - 1));
    }
}
