//! For those who test handlers of their own: a broker and a store in memory, on virtual time, and a consumer that is driven
//! step by step.
//!
//! ```
//! use posthaste_core::consumer::{Consumer, Cx, Failure, Stepped};
//! use posthaste_core::memory::Memory;
//! use posthaste_testkit::kit::{self, Stage};
//! # use posthaste_core::{codec::Json, event::Event};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Debug, PartialEq, Serialize, Deserialize)] struct OrderPlaced { order_id: u32 }
//! # impl Event for OrderPlaced { const TYPE: &'static str = "order.placed"; type Codec = Json; }
//! # #[derive(Debug, PartialEq, Serialize, Deserialize)] struct StockReserved { order_id: u32 }
//! # impl Event for StockReserved { const TYPE: &'static str = "stock.reserved"; type Codec = Json; }
//!
//! // The handler under test; in production its database is a pool.
//! async fn reserve(cx: &mut Cx<Memory>, event: OrderPlaced) -> Result<(), Failure> {
//!     cx.publish(&StockReserved { order_id: event.order_id }).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> posthaste_core::Result<()> {
//! let store = kit::store();
//! let consumer = Consumer::new("stock", store.clone(), ()).on(reserve);
//! let mut stage = Stage::of(consumer).await?;
//!
//! stage.publish(&OrderPlaced { order_id: 7 }).await?;
//! assert_eq!(stage.step().await?, Stepped::Handled);
//! kit::assert_published(&store, &StockReserved { order_id: 7 }).await;
//! stage.assert_idle().await;
//! # Ok(()) }
//! ```
//!
//! Let a test begin with `#[tokio::test(start_paused = true)]`: pauses between retries then take no time, and the clock of
//! [`store`] follows tokio's.
//!
//! Failures are put in with [`Faults`]:
//!
//! ```
//! # use posthaste_core::consumer::{Consumer, Cx, Failure, Stepped};
//! # use posthaste_core::{codec::Json, event::Event, publish::Publish};
//! # use posthaste_testkit::kit::{Fault, Faults, Stage};
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Serialize, Deserialize)] struct OrderPlaced { order_id: u32 }
//! # impl Event for OrderPlaced { const TYPE: &'static str = "order.placed"; type Codec = Json; }
//! # async fn reserve(_: &mut Cx, _: OrderPlaced) -> Result<(), Failure> { Ok(()) }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> posthaste_core::Result<()> {
//! let faults = Faults::new().on("order-7", [Fault::Error, Fault::Panic]);
//! let mut stage = Stage::of(Consumer::named("stock").on(reserve).around(faults)).await?;
//! stage.publish(Publish::of(&OrderPlaced { order_id: 7 }).id("order-7")).await?;
//! assert!(matches!(stage.step().await?, Stepped::Retry(_)));
//! assert!(matches!(stage.step().await?, Stepped::Retry(_)), "a panic is a failure like any other");
//! assert_eq!(stage.step().await?, Stepped::Handled);
//! # Ok(()) }
//! ```

mod clock;
mod faults;
mod published;
mod stage;

pub use clock::{TokioClock, store};
pub use faults::{Fault, Faults};
pub use published::{assert_nothing_published, assert_published, published};
pub use stage::Stage;
