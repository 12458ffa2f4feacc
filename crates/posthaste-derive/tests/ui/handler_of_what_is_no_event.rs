use posthaste::{Consumer, Cx, Failure};

struct Order;

async fn handle(_: &mut Cx, _: Order) -> Result<(), Failure> {
    Ok(())
}

fn main() {
    let _ = Consumer::named("stock").on(handle);
}
