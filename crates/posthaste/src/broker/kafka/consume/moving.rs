//! What is written on a message that is put into one of the group's own topics.

use rdkafka::message::{Header, Headers as _, OwnedHeaders};

use crate::broker::story::{OURS, Story};

/// The headers of a message that is moved: its own, and what happened to it by now.
pub(super) fn headers_of(headers: Option<&OwnedHeaders>, story: &Story) -> OwnedHeaders {
    let mut new = OwnedHeaders::new();
    for header in headers.iter().flat_map(|headers| headers.iter()) {
        if !header.key.to_ascii_lowercase().starts_with(OURS) {
            new = new.insert(header);
        }
    }
    for (name, value) in story.entries() {
        new = with(new, name, value.as_bytes());
    }
    new
}

/// These headers, and one more.
pub(super) fn with(headers: OwnedHeaders, name: &str, value: &[u8]) -> OwnedHeaders {
    headers.insert(Header { key: name, value: Some(value) })
}

#[cfg(test)]
mod tests {
    use posthaste_core::broker::Reason;

    use super::*;
    use crate::broker::kafka::wire::text;

    #[test]
    fn a_moved_message_keeps_its_own_headers_and_has_one_story() {
        let own = with(with(OwnedHeaders::new(), "own", &[0xff, 0]), "ce_id", b"e1");
        let mut story = Story::default();
        story.died("orders", Reason::new("smell", "it smells"));
        let dead = headers_of(Some(&own), &story);
        assert_eq!(Story::read(|name| text(&dead, name)), story);
        let again = headers_of(Some(&with(dead, "posthaste-due", b"7")), &Story::anew());
        assert_eq!(Story::read(|name| text(&again, name)), Story::anew());
        assert_eq!((text(&again, "posthaste-due"), text(&again, "ce_id").as_deref()), (None, Some("e1")));
        assert!(again.iter().any(|header| header.key == "own" && header.value == Some(&[0xff, 0])));
    }
}
