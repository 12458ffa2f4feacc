use posthaste::Event;

#[derive(Event)]
#[event(type = "order.placed")]
union OrderPlaced {
    id: u64,
    bytes: [u8; 8],
}

fn main() {}
