use posthaste::{Consumer, Cx, Event};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed")]
struct OrderPlaced;

async fn handle(_: &mut Cx, _: OrderPlaced) {}

fn main() {
    let _ = Consumer::named("stock").on(handle);
}
