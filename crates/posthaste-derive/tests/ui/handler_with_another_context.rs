use posthaste::{Consumer, Cx, Event, Failure};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed")]
struct OrderPlaced;

async fn handle(_: &mut Cx<sqlx::PgPool>, _: OrderPlaced) -> Result<(), Failure> {
    Ok(())
}

fn main() {
    let _ = Consumer::named("stock").on(handle);
}
