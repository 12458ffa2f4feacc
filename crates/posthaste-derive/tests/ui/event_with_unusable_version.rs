use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", version = 0)]
struct Zero;

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", version = "1")]
struct Text;

fn main() {}
