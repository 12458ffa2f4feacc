use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", topic = "orders", topic = "others")]
struct OrderPlaced;

fn main() {}
