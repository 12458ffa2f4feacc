use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct OrderId(u64);

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", key = order_id)]
struct OrderPlaced {
    order_id: OrderId,
}

fn main() {}
