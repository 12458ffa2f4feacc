//! A broker that answers and confirms nothing: a quorum queue without a leader.

use lapin::types::AMQPValue;
use posthaste::broker::amqp::AmqpBroker;
use posthaste::target::{DeliverError, DeliverKind};

use crate::rabbitmq_target::stand::{Stand, blocking, event, send, until};

/// While others are confirmed it is this event's failure; while nothing is, nobody's events would pass, and the lane waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_lost_its_leader_takes_events_again_when_it_has_one() {
    let name = "a_queue_that_lost_its_leader_takes_events_again_when_it_has_one";
    let Some(mut stand) = Stand::private(name, |_| String::new()).await else { return };
    let (alone, neighbour) = (quorum(&stand, "alone").await, quorum(&stand, "neighbour").await);
    let target = stand.open("confirm_timeout=5s");
    until("a young broker confirms", async || {
        send(&target, vec![event("0", "alone"), event("1", "neighbour")]).await == [Ok(()), Ok(())]
    })
    .await;

    eval(&mut stand, &format!("ok = sys:suspend('%2F_{alone}')."));
    let (waits, passes) = tokio::join!(told(&target, "2", "alone"), passing(&target));
    assert!(passes, "the other queue takes its events");
    assert_eq!(
        waits,
        Some((DeliverKind::Failed, "confirm timeout".to_owned())),
        "others are confirmed meanwhile"
    );
    let waits = told(&target, "3", "alone").await;
    assert_eq!(waits, Some((DeliverKind::Unavailable, "confirm timeout".to_owned())), "nothing is confirmed");

    for what in ["stop_server", "restart_server"] {
        eval(&mut stand, &format!("ok = ra:{what}(quorum_queues, {{'%2F_{alone}', node()}})."));
    }
    until("its events pass again", async || told(&target, "5", "alone").await.is_none()).await;
    assert!(stand.ids(&alone).await.contains(&"5".to_owned()));
    assert!(stand.ids(&neighbour).await.contains(&"4".to_owned()));
}

async fn quorum(stand: &Stand, topic: &str) -> String {
    stand.queue(topic, &[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await
}

/// Has the broker do something to the one member of a quorum queue.
fn eval(stand: &mut Stand, call: &str) {
    blocking(|| stand.server().control(&["eval", call]).unwrap());
}

/// What is said about one event: nothing if it was delivered.
async fn told(target: &AmqpBroker, id: &str, topic: &str) -> Option<(DeliverKind, String)> {
    let answers = send(target, vec![event(id, topic)]).await;
    let told = |error: DeliverError| (error.kind, error.code);
    answers.into_iter().next()?.err().map(told)
}

/// Events to the other queue for longer than a confirm may take; whether all of them passed.
async fn passing(target: &AmqpBroker) -> bool {
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(6);
    while tokio::time::Instant::now() < until {
        if told(target, "4", "neighbour").await.is_some() {
            return false;
        }
    }
    true
}
