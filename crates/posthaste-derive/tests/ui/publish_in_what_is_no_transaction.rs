use posthaste::outbox::Outbox;
use posthaste::publish::Publish;

fn through_a_pool(outbox: &Outbox, mut pool: sqlx::PgPool, event: Publish) {
    let _published = outbox.publish(&mut pool, event);
}

fn through_a_blocking_driver(outbox: &Outbox, tx: &mut rusqlite::Transaction<'_>, event: Publish) {
    let _published = outbox.publish(tx, event);
}

fn through_a_connection(outbox: &Outbox, connection: &mut rusqlite::Connection, event: Publish) {
    let _published = outbox.publish_blocking(connection, event);
}

fn main() {}
