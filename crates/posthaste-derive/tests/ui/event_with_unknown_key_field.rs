use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", key = id)]
struct OrderPlaced {
    order_id: u64,
    sku: String,
}

fn main() {}
