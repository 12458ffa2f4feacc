//! `data` and `data_base64`: how a JSON document carries a payload.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::members::Members;
use crate::http::wire::is_json;

/// The payload that these members carry; empty if there is none.
///
/// `data` of a JSON content type is the text as it was sent, byte for byte. `data` of any other type must be a string, whose
/// characters are the payload.
pub(super) fn take(members: &mut Members<'_>, content_type: &str) -> Vec<u8> {
    let data = members.take("data");
    let in_base64 = members.text("data_base64");
    match (data, in_base64) {
        (Some(_), Some(_)) => {
            members.mistake("data and data_base64 are both there; send one of them");
            Vec::new()
        }
        (None, None) => Vec::new(),
        (None, Some(text)) => BASE64.decode(&text).unwrap_or_else(|_| {
            members.mistake("data_base64 is not base64 (RFC 4648, with padding)");
            Vec::new()
        }),
        (Some(json), None) if is_json(content_type) => json.get().as_bytes().to_vec(),
        (Some(json), None) => match serde_json::from_str::<String>(json.get()) {
            Ok(text) => text.into_bytes(),
            Err(_) => {
                members.mistake(format!(
                    "data must be a string, because datacontenttype {content_type:?} is not JSON; or send data_base64"
                ));
                Vec::new()
            }
        },
    }
}
