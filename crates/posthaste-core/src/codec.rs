//! How an event becomes bytes, and bytes an event.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Encodes and decodes one type of event.
///
/// Implement it on a unit struct of your own for protobuf, Avro or anything else, and name it in
/// `#[event(codec = …)]`; [`Json`] is the default.
pub trait Codec<T> {
    /// What the payload is called on the wire.
    const CONTENT_TYPE: &'static str;
    /// Writes the event as bytes.
    ///
    /// # Errors
    /// `Rejected` when the value cannot be written in this format.
    fn encode(event: &T) -> Result<Vec<u8>>;
    /// Reads the event from bytes.
    ///
    /// # Errors
    /// `Rejected` when the bytes are not what this codec writes.
    fn decode(payload: &[u8]) -> Result<T>;
}

/// JSON by serde.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    const CONTENT_TYPE: &'static str = "application/json";

    fn encode(event: &T) -> Result<Vec<u8>> {
        serde_json::to_vec(event).map_err(|error| Error::rejected("encode the event as JSON").because(error))
    }

    fn decode(payload: &[u8]) -> Result<T> {
        serde_json::from_slice(payload)
            .map_err(|error| Error::rejected("decode the event from JSON").because(error))
    }
}
