//! Publish and consume, in one process and without a server.
//!
//! Run it: `cargo run -p posthaste --example consume`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use posthaste::{Consumer, Cx, Event, Failure, Result};

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed", key = order_id)]
struct OrderPlaced {
    order_id: u32,
}

async fn greet(_: &mut Cx, event: OrderPlaced) -> Result<(), Failure> {
    println!("thank you for order {}", event.order_id);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let broker = posthaste::broker::local();
    let consumer = Consumer::named("greeter").on(greet);
    consumer.declare(&broker).await?;
    broker.publish(&OrderPlaced { order_id: 7 }).await?;
    let (ran, _) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran
}
