//! Whether an event will be small enough for a broker, before it is stored.

use std::sync::Arc;

use posthaste_core::envelope::Envelope;
use posthaste_core::store::Parcel;
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::time::{Clock as _, SystemClock};
use posthaste_core::{Error, Result};

/// What an event needs beside its payload, headers and names, at most: the attributes' own names, and what is around them.
const FRAME_BYTES: usize = 4 * 1024;
/// Text may grow so much when it is written: each byte as `%XX`.
const GROWS: usize = 3;

/// Checks that a message of this event is within the limit, by making it as it will be sent. Most events are far below, and nothing is
/// made of these.
///
/// # Errors
/// `TooLarge`, in the words of whoever makes the message. Whatever else is wrong with it is not told here.
pub(crate) fn fits(
    event: &Envelope,
    limit: u64,
    encode: impl FnOnce(&Parcel) -> Result<(), DeliverError>,
) -> Result<()> {
    // Base64 makes four bytes of three.
    if (event.payload.len() * 2 + GROWS * beside_payload(event) + FRAME_BYTES) as u64 <= limit {
        return Ok(());
    }
    match encode(&Parcel::new(Arc::new(event.clone()), 1, false, SystemClock.now())) {
        Err(error) if error.kind == DeliverKind::TooLarge => Err(Error::too_large(error.message)),
        _ => Ok(()),
    }
}

fn beside_payload(event: &Envelope) -> usize {
    let headers = event.headers.iter().map(|(name, value)| name.len() + value.len() + 16);
    let optional = [&event.key, &event.subject].map(|text| text.as_ref().map_or(0, String::len));
    let names =
        [&event.id, &event.source, &event.event_type, &event.topic, &event.content_type].map(String::len);
    // Id and key are written twice.
    headers.chain(optional).chain(names).sum::<usize>() + event.id.len() + optional[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_events_are_not_written_and_large_ones_are_judged_by_what_is_written() {
        let event = |bytes: usize| Envelope::new("t", vec![0; bytes]);
        let unasked = |_: &Parcel| -> Result<(), DeliverError> { panic!("that is plain") };
        assert!(fits(&event(1_000), 10_000, unasked).is_ok());
        let asked = |kind| move |_: &Parcel| Err(DeliverError::new(kind, "code", "why"));
        let error = fits(&event(9_000), 10_000, asked(DeliverKind::TooLarge)).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
        assert!(fits(&event(9_000), 10_000, asked(DeliverKind::Rejected)).is_ok());
    }
}
