use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "", topic = "")]
struct Empty;

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order placed", topic = ORDERS)]
struct Blank;

const ORDERS: &str = "orders";

fn main() {}
