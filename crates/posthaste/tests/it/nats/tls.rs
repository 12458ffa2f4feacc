//! Encrypted connections: with the right CA, the right name and a certificate of our own, or not at all.

use posthaste::broker::nats::NatsBroker;
use posthaste::target::{DeliverKind, Target};

use crate::certificates::papers::Papers;
use crate::nats::stand::{address, event, send, server};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made() {
    let name = "a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made";
    let papers = Papers::new();
    let settings = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n",
        papers.server.0, papers.server.1, papers.trusted
    );
    let Some(server) = server(name, |text| format!("{text}{settings}")) else { return };
    let port = address(&server.url()).port();
    let at = |scheme: &str, (host, settings): &(&str, String)| {
        let url = format!("{scheme}://{host}:{port}?prefix=t&create_stream=true&{settings}");
        NatsBroker::at(&url).unwrap()
    };
    let target = at("tls", &papers.right());
    target.ping().await.unwrap();
    assert!(send(&target, vec![event("1", "t")]).await[0].is_ok(), "acknowledged by the stream");

    let wrong = papers.wrong().into_iter().map(|wrong| ("tls", wrong));
    // The server speaks with nobody in the clear.
    let in_the_clear = ("nats", ("localhost", String::new()));
    for (scheme, wrong) in wrong.chain([in_the_clear]) {
        let target = at(scheme, &wrong);
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("{}:{port}", wrong.0)), "{wrong:?}: {error}");
        let answers = send(&target, vec![event("2", "t")]).await;
        assert_eq!(answers[0].as_ref().unwrap_err().kind, DeliverKind::Unavailable, "{answers:?}");
    }
    let missing = NatsBroker::at(&format!("tls://h?sslrootcert={}", papers.missing()));
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
}
