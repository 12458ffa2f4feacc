//! What is wrong in a URL is explained, and no password is shown.

use posthaste::broker::amqp::AmqpBroker;
use posthaste::target::{DeliverKind, Target};

use crate::rabbitmq_target::stand::{Stand, blocking, event, send};

/// The same URL with other credentials and another virtual host.
fn other(url: &str, credentials: &str, vhost: &str) -> String {
    let (_, rest) = url.rsplit_once('@').unwrap();
    let (address, _) = rest.split_once('/').unwrap();
    format!("amqp://{credentials}@{address}/{vhost}")
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_and_a_missing_virtual_host_are_named() {
    let Some(stand) = Stand::shared("wrong_credentials_and_a_missing_virtual_host_are_named").await else {
        return;
    };
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

/// A user that may write to the exchange and nothing else publishes; one that may not is told so, and the lane would wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_needs_the_right_to_write_and_no_other() {
    let name = "a_publisher_needs_the_right_to_write_and_no_other";
    let Some(mut stand) = Stand::private(name, |_| String::new()).await else { return };
    let queue = stand.queue("t", &[]).await;
    let exchange = stand.name.clone();
    for (user, may_write) in [("writer", exchange.as_str()), ("reader", "^$")] {
        let server = stand.server();
        blocking(|| {
            server.control(&["add_user", user, "hunter2"]).unwrap();
            server.control(&["set_permissions", user, "^$", may_write, ".*"]).unwrap();
        });
    }
    let at = |user: &str| {
        let url = other(&stand.url, &format!("{user}:hunter2"), "%2f");
        AmqpBroker::at(&format!("{url}?exchange={exchange}")).unwrap()
    };
    assert!(send(&at("writer"), vec![event("1", "t")]).await[0].is_ok());
    assert_eq!(stand.ids(&queue).await, ["1"]);
    for answer in send(&at("reader"), vec![event("2", "t"), event("3", "t")]).await {
        let error = answer.unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "not allowed"), "{error}");
        assert!(error.message.contains(&exchange) && !error.message.contains("hunter2"), "{error}");
    }
}
