//! A domain that knows nothing of topics (registry), a handler that runs once per event (idempotency store), and dead
//! letters that somebody reads.
//!
//! Run it: `cargo run -p posthaste --example wiring`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use posthaste::consumer::{Idempotent, MemoryDedup};
use posthaste::envelope::Envelope;
use posthaste::registry::Registry;
use posthaste::retry::Backoff;
use posthaste::{Consumer, Cx, Failure, Result};
use serde::{Deserialize, Serialize};

/// The domain's own type: no derive, no topic.
#[derive(Serialize, Deserialize)]
struct WidgetCreated {
    id: u32,
    name: String,
}

/// Mails go out through somebody else's server, so a second mail could not be taken back.
async fn mail(cx: &mut Cx, event: Arc<Envelope>) -> Result<(), Failure> {
    let widget: WidgetCreated =
        serde_json::from_slice(&event.payload).map_err(|error| Failure::reject(error).code("undecodable"))?;
    if widget.name.is_empty() {
        return Err(Failure::reject(format!("widget {} has no name", widget.id)).code("nameless"));
    }
    if widget.id == 2 && cx.attempt() == 1 {
        return Err(Failure::retry("the mail server is busy"));
    }
    println!("mailed about widget {} ({}) at attempt {}", widget.id, widget.name, cx.attempt());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut registry = Registry::new();
    registry.register::<WidgetCreated>("widget.created", "widgets")?.key_by(|widget| widget.id.to_string());

    let broker = posthaste::broker::local();
    let consumer = Consumer::named("mailer")
        .topics(["widgets"])
        .on_any(mail)
        .around(Idempotent::by(Arc::new(MemoryDedup::new())))
        .retry(Backoff::fixed(Duration::from_millis(10)).attempts(3))
        .workers(1);
    consumer.declare(&broker).await?;

    for (id, name) in [(1, "lamp"), (2, "chair"), (3, "")] {
        let widget = WidgetCreated { id, name: name.to_owned() };
        // Twice, as a producer does that got no answer the first time.
        for _ in 0..2 {
            broker.publish(registry.of(&widget)?.id(format!("widget-{id}"))).await?;
        }
    }

    let letters = async {
        let mut letters = broker.dead_letters();
        while let Some(letter) = letters.next().await {
            println!("dead: {} ({}) {}", letter.envelope.id, letter.reason.code, letter.reason.message);
        }
    };
    let (ran, _, ()) =
        tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close(), letters);
    ran
}
