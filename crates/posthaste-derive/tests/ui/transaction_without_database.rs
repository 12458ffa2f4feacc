use posthaste::{Cx, Event, Failure};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed")]
struct OrderPlaced;

async fn handle(cx: &mut Cx, event: OrderPlaced) -> Result<(), Failure> {
    let _tx = cx.tx();
    cx.publish(&event).await?;
    Ok(())
}

fn main() {
    let _ = handle;
}
