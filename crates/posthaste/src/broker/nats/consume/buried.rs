//! Dead letters that fit. The server takes a message of so many bytes and no more, and a dead letter is the message that died with its
//! story on top: of a message that was nearly as large as can be, something must stay away, or it could never be buried and would
//! come again for ever.
//!
//! First the error's text is cut, then its code. If that is not enough, the payload stays where it is, in the stream of the message that
//! died, and the letter says where that is.

use async_nats::HeaderMap;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use posthaste_core::broker::{Count, Reason};
use posthaste_core::{Error, Result};

use super::receipt::{moved, of_one_line};
use super::told;
use crate::broker::nats::link::Live;
use crate::broker::nats::wire::{self, Message};
use crate::broker::story::{Story, cut_to};

/// Where the payload of a dead letter is, if not in it: `<stream>/<number>/<time>` of the message that died.
const ORIGINAL: &str = "posthaste-original";
/// What a letter without a payload says of the error.
const BRIEF: usize = 512;
/// What a letter has of the error's code where there is no room for all of it.
const CODE_BYTES_MIN: usize = 64;

/// A message that died, and where it is.
pub(super) struct Body<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) payload: &'a Bytes,
    /// Where it was published to.
    pub(super) subject: &'a str,
    pub(super) stream: &'a str,
    /// Its number there.
    pub(super) sequence: u64,
    /// When the stream has taken it, in nanoseconds.
    pub(super) nanos: i128,
}

/// A dead letter.
pub(super) struct Letter {
    pub(super) message: Message,
    /// Whether the payload is in it.
    pub(super) is_whole: bool,
}

impl Body<'_> {
    /// Its letter to this subject, of at most so many bytes. `once`: by which the stream knows it if it is buried twice.
    pub(super) fn letter(&self, story: &Story, subject: &str, once: &str, bytes_max: u64) -> Letter {
        let mut brief = story.clone();
        if let Some(dead) = &mut brief.dead {
            dead.reason.code = cut_to(&dead.reason.code, CODE_BYTES_MIN).to_owned();
        }
        let whole = [story, &brief].into_iter().find_map(|story| self.whole(story, subject, once, bytes_max));
        match whole {
            Some(message) => Letter { message, is_whole: true },
            None => Letter { message: self.reference(brief, subject, once, bytes_max), is_whole: false },
        }
    }

    /// Its letter with the payload in it and as much of the error's text as fits; `None` if nothing of that does.
    fn whole(&self, story: &Story, subject: &str, once: &str, bytes_max: u64) -> Option<Message> {
        let with = |story: &Story| Message {
            subject: subject.to_owned(),
            headers: moved(self.headers, story, self.subject, Some(once)),
            payload: self.payload.clone(),
        };
        let message = with(story);
        let excess = wire::size(&message).saturating_sub(bytes_max);
        if excess == 0 {
            return Some(message);
        }
        let mut story = story.clone();
        let dead = story.dead.as_mut()?;
        let error = of_one_line(cut_to(&dead.reason.message, usize::MAX));
        let keep = error.len().checked_sub(usize::try_from(excess).ok()?)?;
        dead.reason.message = cut_to(&error, keep).to_owned();
        Some(with(&story))
    }

    /// Its letter without the payload, which says where that is.
    fn reference(&self, mut story: Story, subject: &str, once: &str, bytes_max: u64) -> Message {
        if let Some(dead) = &mut story.dead {
            dead.reason.message = format!(
                "{} (its payload of {} bytes is too large for a dead letter: it is message {} of the stream {:?})",
                of_one_line(cut_to(&dead.reason.message, BRIEF)),
                self.payload.len(),
                self.sequence,
                self.stream
            );
        }
        let referring = |own: &HeaderMap| {
            let mut headers = moved(own, &story, self.subject, Some(once));
            let place = format!("{}/{}/{}", self.stream, self.sequence, self.nanos);
            let _ = wire::put(&mut headers, ORIGINAL, &place);
            Message { subject: subject.to_owned(), headers, payload: Bytes::new() }
        };
        let mut id = HeaderMap::new();
        if let Some(known) = self.id() {
            let _ = wire::put(&mut id, wire::ID, &known);
        }
        // Its headers alone are too large: they stay there too, and the event is known by its id, unless that is what is large.
        let fits = |message: &Message| wire::size(message) <= bytes_max;
        let mut messages = [self.headers, &id].into_iter().map(referring);
        messages.find(fits).unwrap_or_else(|| referring(&HeaderMap::new()))
    }

    fn id(&self) -> Option<String> {
        let event = wire::decode(self.headers, "", self.payload);
        event.map_or_else(|_| wire::event_id(self.headers), |event| Some(event.id))
    }

    /// Whether it can be buried whole by this consumer, whatever it dies of: where an acknowledgement removes a message, it must not be
    /// put if it could not be.
    pub(super) fn can_die(&self, consumer: &str, bytes_max: u64) -> bool {
        let mut story = Story { redriven: true, ..Story::default() };
        story.failed(u32::MAX, Count::Attempt);
        story.died(consumer, Reason::new("x".repeat(CODE_BYTES_MIN), ""));
        let once = format!("{}/{consumer}/{}/{}", self.stream, u64::MAX, i64::MAX);
        self.whole(&story, "", &once, bytes_max).is_some()
    }
}

/// The message that a dead letter without a payload is about; `None` for a letter that is whole.
///
/// # Errors
/// `NotFound` if it is there no more.
pub(super) async fn original(live: &Live, letter: &StreamMessage) -> Result<Option<StreamMessage>> {
    let Some(place) = wire::text(&letter.headers, ORIGINAL) else { return Ok(None) };
    let gone = || Error::not_found(format!("the message {place:?}, which the dead letter is about, is gone"));
    let mut words = place.split('/');
    let (Some(stream), Some(Ok(sequence)), Some(nanos)) =
        (words.next(), words.next().map(str::parse::<u64>), words.next())
    else {
        return Err(gone());
    };
    let stream = live.jetstream.get_stream_no_info(stream).await;
    let stream = stream.map_err(|error| told("look for the message of a dead letter", &error))?;
    let found = stream.get_raw_message(sequence).await.map_err(|error| match error.kind() {
        LastRawMessageErrorKind::NoMessageFound => gone(),
        // The stream went with everything that was in it.
        LastRawMessageErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
            gone()
        }
        _ => told("read the message of a dead letter", &error),
    })?;
    if found.time.unix_timestamp_nanos().to_string() != nanos { Err(gone()) } else { Ok(Some(found)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::nats::wire::text;

    const LIMIT: u64 = 10_000;

    fn letter(payload: usize, header: usize, error: &str) -> Letter {
        let mut headers = HeaderMap::new();
        headers.insert("own", "x".repeat(header));
        headers.insert("Nats-Msg-Id", "e1");
        let payload = Bytes::from(vec![b'x'; payload]);
        let body =
            Body { headers: &headers, payload: &payload, subject: "s.t", stream: "S", sequence: 7, nanos: 9 };
        let mut story = Story::default();
        story.died("c", Reason::new("smell", error));
        body.letter(&story, "dead.c", "S/c/7/9", LIMIT)
    }

    fn error_of(letter: &Letter) -> String {
        Story::read(|name| text(&letter.message.headers, name)).dead.unwrap().reason.message
    }

    #[test]
    fn a_letter_has_as_much_of_its_error_as_fits_beside_the_message() {
        let small = letter(100, 1, "it smells");
        assert!(small.is_whole && error_of(&small) == "it smells");
        let large = letter(8_000, 1, &"ü".repeat(2_000));
        assert!(large.is_whole && large.message.payload.len() == 8_000);
        let size = wire::size(&large.message);
        assert!(size <= LIMIT && size > LIMIT - 3, "{size}");
        assert!(error_of(&large).chars().all(|c| c == 'ü'));
    }

    #[test]
    fn a_message_that_is_as_large_as_can_be_is_referred_to() {
        for (payload, header, keeps) in [(9_990, 1, true), (9, 9_900, false)] {
            let letter = letter(payload, header, &"e".repeat(4_000));
            assert!(!letter.is_whole && letter.message.payload.is_empty());
            assert!(wire::size(&letter.message) <= LIMIT);
            assert_eq!(text(&letter.message.headers, ORIGINAL).as_deref(), Some("S/7/9"));
            assert_eq!(text(&letter.message.headers, "own").is_some(), keeps);
            assert_eq!(
                wire::event_id(&letter.message.headers).as_deref(),
                Some("e1"),
                "it can be chosen by its id"
            );
            assert!(error_of(&letter).contains("message 7 of the stream \"S\""));
        }
    }
}
