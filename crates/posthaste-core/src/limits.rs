//! Every limit on what a producer may hand in, in one place: the library, REST and the store agree on them.

/// The largest payload unless configured otherwise.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// The largest payload limit that can be configured.
pub const PAYLOAD_BYTES_CEILING: usize = 64 * 1024 * 1024;
/// The longest event id.
pub const ID_BYTES_MAX: usize = 255;
/// The longest event type, topic, source, subject and content type.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 255;
/// How many headers an event may have.
pub const HEADERS_MAX: usize = 64;
/// How many bytes the names and values of an event's headers may have together.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// How many events one batch may have.
pub const BATCH_EVENTS_MAX: usize = 1_000;
/// How many bytes of an error's text are kept.
pub const ERROR_BYTES_MAX: usize = 1_024;
/// Header names that begin so are Posthaste's own.
pub const RESERVED_HEADER_PREFIXES: [&str; 2] = ["posthaste-", "ce-"];

const _: () = assert!(PAYLOAD_BYTES_MAX <= PAYLOAD_BYTES_CEILING, "the default must be allowed");
