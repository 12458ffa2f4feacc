//! What is wrong in a URL is explained, and no password is shown.

use posthaste::broker::amqp::AmqpBroker;
use posthaste::target::{DeliverKind, Target};

use crate::stand::{Stand, event, send};

/// The same URL with other credentials and another virtual host.
fn other(url: &str, credentials: &str, vhost: &str) -> String {
    let (_, rest) = url.rsplit_once('@').unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    format!("amqp://{credentials}@{address}/{vhost}")
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_and_a_missing_virtual_host_are_named() {
    let Some(stand) = Stand::shared("wrong_credentials_and_a_missing_virtual_host_are_named").await else { return };
    for (url, says) in [
        (other(&stand.url, "guest:hunter2", "%2f"), "check both"),
        (other(&stand.url, "guest:guest", "not-there"), "\"not-there\" is missing"),
        ("amqp://guest:hunter2@127.0.0.1:1/%2f".to_owned(), "127.0.0.1:1"),
    ] {
        let target = AmqpBroker::at(&url).unwrap();
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("hunter2"), "{error}");
        let answers = send(&target, vec![event("1", "t")]).await;
        let answer = answers[0].as_ref().unwrap_err();
        assert_eq!(answer.kind, DeliverKind::Unavailable);
        assert!(answer.message.contains(says) && !answer.message.contains("hunter2"), "{answer}");
    }
    stand.clear("").await;
}
