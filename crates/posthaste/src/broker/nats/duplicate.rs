//! What a stream calls a duplicate, and whether it has the event all the same.
//!
//! A stream knows messages by their ids alone and drops what has the id of another, also when that other one is of another source,
//! of another lane that writes the event in another way, or long gone from the stream. So only what is seen there is delivered.

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessageErrorKind;
use posthaste_core::redact;
use posthaste_core::store::Parcel;
use tokio::time::timeout;

use super::NatsBroker;
use super::link::Live;
use super::publisher::Said;
use super::wire::{ID, MSG_ID, Message, SOURCE, encode, event_id, text};
use crate::broker::cloudevents::NO_SOURCE;

/// What a stream has under the number of a duplicate.
enum There {
    /// This very event.
    Same,
    /// Another one.
    Other,
    /// Nothing any more: it was consumed, or removed. Nobody can tell which event it was.
    Gone,
}

impl NatsBroker {
    /// Sees to it that the stream has this event, whose id it has seen before, under this number.
    pub(super) async fn look_at_duplicate(
        &self,
        live: &Live,
        parcel: &Parcel,
        stream: &str,
        number: u64,
    ) -> Said {
        let looked = timeout(self.publishing.patience(), self.settle_duplicate(live, parcel, stream, number));
        let late =
            |_| Said::Lost("the server did not say in time what it has under the event's id".to_owned());
        looked.await.unwrap_or_else(late)
    }

    /// An event whose id is another one's is sent with its source in the id; one that this does not help, or that is gone, without
    /// an id that the stream knows.
    async fn settle_duplicate(&self, live: &Live, parcel: &Parcel, stream: &str, number: u64) -> Said {
        let Ok(mut message) = encode(parcel, &self.settings.publishing, None) else {
            return Said::Lost("the event cannot be written".to_owned());
        };
        match look(live, &message, stream, number).await {
            Ok(There::Same) => return Said::Acked,
            Ok(There::Gone) => return self.send_as_new(live, parcel).await,
            Ok(There::Other) => {}
            Err(said) => return said,
        }
        let source = Some(parcel.envelope.source.as_str()).filter(|source| !source.is_empty());
        let id = format!("{} {}", source.unwrap_or(NO_SOURCE), parcel.envelope.id);
        message.headers.insert(ID, parcel.envelope.id.as_str());
        message.headers.insert(MSG_ID, id.as_str());
        match live.ask(message.clone(), self.publishing.patience()).await {
            Said::Duplicate(stream, number) => match look(live, &message, &stream, number).await {
                Ok(There::Same) => Said::Acked,
                Ok(_) => self.send_as_new(live, parcel).await,
                Err(said) => said,
            },
            said => said,
        }
    }

    /// Sends it so that no stream can take it for another one.
    async fn send_as_new(&self, live: &Live, parcel: &Parcel) -> Said {
        let mut anew = parcel.clone();
        anew.replay = true;
        match encode(&anew, &self.settings.publishing, None) {
            Ok(message) => live.ask(message, self.publishing.patience()).await,
            Err(error) => Said::TooLarge(error.message),
        }
    }
}

/// Looks at what the stream has.
async fn look(live: &Live, message: &Message, stream: &str, number: u64) -> Result<There, Said> {
    let lost = |words: String| Said::Lost(redact::clean(&words));
    let stream = live.jetstream.get_stream_no_info(stream).await.map_err(|error| lost(error.to_string()))?;
    match stream.get_raw_message(number).await {
        Ok(there) if is_same(message, &there) => Ok(There::Same),
        Ok(_) => Ok(There::Other),
        Err(error) if matches!(error.kind(), RawMessageErrorKind::NoMessageFound) => Ok(There::Gone),
        Err(error) => Err(lost(error.to_string())),
    }
}

/// Whether the message that a stream has is this one: by id, source, subject and content. Where the source does not travel, nobody
/// who reads the stream could tell two sources apart either.
fn is_same(message: &Message, there: &StreamMessage) -> bool {
    let source = |headers| text(headers, SOURCE);
    message.subject == there.subject.as_str()
        && message.payload == there.payload
        && source(&message.headers) == source(&there.headers)
        && event_id(&message.headers) == event_id(&there.headers)
}
