//! A typed event.

use std::borrow::Cow;

use crate::codec::Codec;

/// A type that can be published: what it is called, where it goes, and how it becomes bytes.
///
/// Derive it with `#[derive(Event)]`, or write it by hand:
///
/// ```
/// use posthaste_core::{codec::Json, event::Event};
/// use serde::{Deserialize, Serialize};
/// use std::borrow::Cow;
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced { order_id: u64 }
///
/// impl Event for OrderPlaced {
///     const TYPE: &'static str = "order.placed";
///     const TOPIC: Option<&'static str> = Some("orders");
///     type Codec = Json;
///     fn key(&self) -> Option<Cow<'_, str>> {
///         Some(self.order_id.to_string().into())
///     }
/// }
/// # assert_eq!(OrderPlaced { order_id: 7 }.key().as_deref(), Some("7"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "add `#[derive(Event, Serialize, Deserialize)]` and `#[event(type = \"…\")]` to it",
    note = "for a type that must not know about Posthaste, map it in a `Registry` and publish `registry.of(&value)?`"
)]
pub trait Event: Sized + Send + Sync + 'static {
    /// What happened, in a stable word that outlives this Rust type: `order.placed`.
    const TYPE: &'static str;
    /// The version of the payload's schema.
    const VERSION: u32 = 1;
    /// Where it goes; `None` means the type is the topic.
    const TOPIC: Option<&'static str> = None;
    /// How it becomes bytes.
    type Codec: Codec<Self>;
    /// Routes and orders: events of one key are delivered in order. `None`: no order.
    fn key(&self) -> Option<Cow<'_, str>> {
        None
    }
}
