use posthaste::{Consumer, Event};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed")]
struct OrderPlaced;

fn main() {
    let client = String::new();
    let _ = Consumer::named("stock").on(async move |_cx, _event: OrderPlaced| {
        println!("{client}");
        Ok(())
    });
}
