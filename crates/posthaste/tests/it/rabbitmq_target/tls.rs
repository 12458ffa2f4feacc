//! Encrypted connections: with the right CA, the right name and a certificate of our own, or not at all.

use posthaste::broker::amqp::AmqpBroker;
use posthaste::target::Target;

use crate::certificates::papers::Papers;
use crate::rabbitmq_target::stand::{Stand, event, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made() {
    let name = "a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made";
    let papers = Papers::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!(
        "listeners.ssl.default = 127.0.0.1:{port}\nssl_options.cacertfile = {}\nssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
        papers.trusted, papers.server.0, papers.server.1,
    );
    let Some(stand) = Stand::private(name, |_| settings).await else { return };
    let queue = stand.queue("t", &[]).await;
    let at = |(host, settings): &(&str, String)| {
        let url = format!("amqps://guest:guest@{host}:{port}/%2f?exchange={}&{settings}", stand.name);
        AmqpBroker::at(&url).unwrap()
    };
    assert!(send(&at(&papers.right()), vec![event("1", "t")]).await[0].is_ok());
    assert_eq!(stand.ids(&queue).await, ["1"]);

    for wrong in papers.wrong() {
        let error = at(&wrong).ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("{}:{port}", wrong.0)), "{error}");
    }
    let missing = AmqpBroker::at(&format!("amqps://h?sslrootcert={}", papers.missing()));
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
}
