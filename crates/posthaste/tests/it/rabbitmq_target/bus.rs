//! The same publishers and handlers on a broker in the process and on RabbitMQ: only the URL differs.

use std::sync::{Arc, Mutex};

use posthaste::consumer::{Consumer, Cx, Failure};
use posthaste::publish::Publish;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::rabbitmq_target::stand::{Stand, until};

type Heard = Arc<Mutex<Vec<String>>>;

async fn hear(
    cx: &mut Cx<posthaste::NoDatabase, Heard>,
    event: Arc<posthaste::envelope::Envelope>,
) -> Result<(), Failure> {
    cx.state().lock().unwrap().push(event.id.clone());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn publishers_and_handlers_stay_the_same_when_the_url_changes() {
    let Some(stand) = Stand::shared("publishers_and_handlers_stay_the_same_when_the_url_changes").await
    else {
        return;
    };
    let remote = format!("{}?exchange={}", stand.url, stand.name);
    for url in [None, Some(remote.as_str())] {
        let bus = posthaste::broker::bus(url).await.unwrap().source("/shop");
        let (heard, topic) = (Heard::default(), format!("{}.orders", stand.name));
        let consumer = Consumer::new(stand.name.as_str(), posthaste::NoDatabase, Arc::clone(&heard));
        let consumer = consumer.topics([topic.as_str()]).on_any(hear);
        consumer.declare(bus.broker().as_ref()).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut tasks = JoinSet::new();
        let broker = Arc::clone(bus.broker());
        tasks.spawn(consumer.run(broker, async {
            let _ = stopped.await;
        }));
        let mut ids = Vec::new();
        for number in 0..20 {
            let event = Publish::raw("order.placed", number.to_string()).topic(topic.as_str());
            ids.push(bus.publish(event).await.unwrap());
        }
        until("all are handled", async || heard.lock().unwrap().len() >= 20).await;
        let _ = stop.send(());
        tasks.join_next().await.unwrap().unwrap().unwrap();
        let mut heard = heard.lock().unwrap().clone();
        heard.sort();
        ids.sort();
        assert_eq!(heard, ids, "{url:?}");
    }
}
