use posthaste::Event;

#[derive(Event)]
#[event(type = "order.placed")]
struct OrderPlaced;

fn main() {}
