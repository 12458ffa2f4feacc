//! `#[derive(Event)]` for Posthaste. Use it through the crate `posthaste`, which re-exports it beside the trait.

mod expand;
mod key;
mod settings;

use syn::{DeriveInput, parse_macro_input};

/// Makes a type an event that can be published: `#[event(…)]` says what it is called, where it goes and in what order.
///
/// ```
/// use posthaste::Event;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(type = "order.placed", version = 2, topic = "orders", key = order_id)]
/// struct OrderPlaced {
///     order_id: u64,
///     sku: String,
/// }
///
/// let placed = OrderPlaced { order_id: 7, sku: "tea".into() };
/// assert_eq!(OrderPlaced::TYPE, "order.placed");
/// assert_eq!(OrderPlaced::VERSION, 2);
/// assert_eq!(OrderPlaced::TOPIC, Some("orders"));
/// assert_eq!(placed.key().as_deref(), Some("7"));
/// ```
///
/// Only `type` must be there. The macro writes nothing that cannot be written by hand: see the trait for that form.
/// Everything wrong with the settings is reported at once, each mistake at its place.
///
/// # `type`: what happened
///
/// A stable word that outlives the name of the Rust type, because others match on it and stored events carry it. At
/// most 255 bytes, without blanks and control characters; the custom is words with dots between them.
///
/// # `version`: of the payload's schema
///
/// A whole number from 1, which is also what is meant without it.
///
/// # `topic`: where it goes
///
/// What lanes select by. Without it the type is the topic. The same limits as for the type.
///
/// ```
/// # use posthaste::Event;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(type = "stock.counted")]
/// struct StockCounted;
///
/// assert_eq!(StockCounted::VERSION, 1);
/// assert_eq!(StockCounted::TOPIC, None); // the type, "stock.counted"
/// assert_eq!(StockCounted.key(), None);
/// ```
///
/// # `key`: what is delivered in order
///
/// Events of one key are delivered in the order in which they were committed; events without a key in any order. It
/// may be
///
/// * a field: `key = order_id`, or `key = 0` in a tuple struct. Any type that is [`Display`](std::fmt::Display) will
///   do; a field declared as `Option<…>` gives no key when it is `None`;
/// * a constant: `key = "eu"`;
/// * an expression over `self` whose value is `Display`: `key = self.region.code()`. In an enum it is the way to a
///   key. For an expression that may have no value write the trait by hand.
///
/// ```
/// # use posthaste::Event;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(type = "parcel.moved", key = self.parcel())]
/// enum ParcelMoved {
///     Packed { parcel: u32 },
///     Shipped { parcel: u32, to: String },
/// }
///
/// impl ParcelMoved {
///     fn parcel(&self) -> u32 {
///         match self {
///             Self::Packed { parcel } | Self::Shipped { parcel, .. } => *parcel,
///         }
///     }
/// }
///
/// assert_eq!(ParcelMoved::Packed { parcel: 4 }.key().as_deref(), Some("4"));
/// ```
///
/// # `codec`: how it becomes bytes
///
/// JSON by serde, unless you name a codec of your own, which then does not need serde at all.
///
/// ```
/// # use posthaste::{Event, codec::Codec};
/// struct Plain;
///
/// impl Codec<Note> for Plain {
///     const CONTENT_TYPE: &'static str = "text/plain";
///     fn encode(note: &Note) -> posthaste::Result<Vec<u8>> {
///         Ok(note.0.clone().into_bytes())
///     }
///     fn decode(payload: &[u8]) -> posthaste::Result<Note> {
///         Ok(Note(String::from_utf8_lossy(payload).into_owned()))
///     }
/// }
///
/// #[derive(Event)]
/// #[event(type = "note.taken", codec = Plain)]
/// struct Note(String);
///
/// assert_eq!(<Note as Event>::Codec::encode(&Note("tea".into())).unwrap(), b"tea");
/// ```
///
/// # `crate`: where Posthaste is
///
/// `::posthaste`, unless you re-export or rename it: `crate = my_framework::posthaste`.
///
/// # Generic types
///
/// Parameters are carried over; the event exists for those arguments for which its codec does.
///
/// ```
/// # use posthaste::Event;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(type = "row.changed", key = table)]
/// struct RowChanged<R> {
///     table: String,
///     row: R,
/// }
///
/// assert_eq!(RowChanged { table: "orders".into(), row: 7 }.key().as_deref(), Some("orders"));
/// ```
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
