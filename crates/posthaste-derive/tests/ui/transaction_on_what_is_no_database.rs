use posthaste::outbox::Outbox;

fn place(outbox: &Outbox, connection: &sqlx::PgConnection) {
    let _done = outbox.transaction(connection, async |_tx, _out| Ok::<_, posthaste::Error>(()));
}

fn main() {}
