use posthaste::outbox::Outbox;
use posthaste::sql::Tx;

struct OrderPlaced;

async fn place(outbox: &Outbox, tx: &mut dyn Tx) {
    let _published = outbox.publish(tx, &OrderPlaced).await;
}

fn main() {}
