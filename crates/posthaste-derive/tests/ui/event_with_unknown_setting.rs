use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(typ = "order.placed")]
struct OrderPlaced;

fn main() {}
