//! Encrypted connections: with the right CA, the right name and a certificate of our own, or not at all.

use posthaste::broker::redis::RedisBroker;
use posthaste::target::{DeliverKind, Target};

use crate::certificates::papers::Papers;
use crate::redis_target::stand::{Stand, event, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made() {
    let name = "a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made";
    let Some(stand) = Stand::private(name).await else { return };
    let papers = Papers::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let shown = [
        ("tls-cert-file", papers.server.0.as_str()),
        ("tls-key-file", &papers.server.1),
        ("tls-ca-cert-file", &papers.trusted),
        ("tls-port", &port.to_string()),
    ];
    let shown: Vec<&str> = shown.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let _: String = stand.ask(&[&["CONFIG", "SET"], shown.as_slice()].concat()).await;
    let at = |(host, settings): &(&str, String)| {
        RedisBroker::at(&format!("rediss://{host}:{port}?prefix={}&{settings}", stand.prefix)).unwrap()
    };
    let target = at(&papers.right());
    target.ping().await.unwrap();
    assert!(send(&target, vec![event("1", "t")]).await[0].is_ok());

    for wrong in papers.wrong() {
        let target = at(&wrong);
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("{}:{port}", wrong.0)), "{wrong:?}: {error}");
        let answers = send(&target, vec![event("2", "t")]).await;
        assert_eq!(answers[0].as_ref().unwrap_err().kind, DeliverKind::Unavailable, "{answers:?}");
    }
    assert_eq!(stand.ids("t").await, ["1"]);
    let missing = RedisBroker::at(&format!("rediss://h?sslrootcert={}", papers.missing()));
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
}
