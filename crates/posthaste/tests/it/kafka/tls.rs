//! Encrypted connections: with the right CA, the right name and a certificate or password of our own, or not at all.

use posthaste::broker::kafka::KafkaBroker;
use posthaste::target::{DeliverKind, Target};
use posthaste_testservers::Port;

use crate::certificates::papers::Papers;
use crate::kafka::stand::{Stand, event, send};

const RIGHT: &str = "create_topics=3";
/// For those who wait in vain.
const QUICK: &str = "create_topics=3&ack_timeout=4s&connect_timeout=2s";

/// Two more listeners: one asks its clients for a certificate, the other for user and password.
fn with_tls(settings: &str, papers: &Papers, [certificate, password]: [u16; 2]) -> String {
    let stored = |(chain, key): &(String, String)| {
        [chain, key].map(|file| std::fs::read_to_string(file).unwrap()).concat()
    };
    let store = format!("{}.store", papers.server.0);
    std::fs::write(&store, stored(&papers.server)).unwrap();
    let module = "org.apache.kafka.common.security";
    let own = |host: &str| format!("SSL://{host}:{certificate},SASL_SSL://{host}:{password}");
    let add = |line: &str| match line.split_once('=') {
        Some(("listeners", _)) => format!("{line},{}\n", own("127.0.0.1")),
        // The name that the certificate is for.
        Some(("advertised.listeners", _)) => format!("{line},{}\n", own("localhost")),
        _ => format!("{line}\n"),
    };
    settings.lines().map(add).collect::<String>()
        + &format!(
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL\n\
             ssl.keystore.type=PEM\n\
             ssl.keystore.location={store}\n\
             ssl.truststore.type=PEM\n\
             ssl.truststore.location={}\n\
             listener.name.ssl.ssl.client.auth=required\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_me=\"hunter2\";\n\
             listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n",
            papers.trusted
        )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made() {
    let trial = "a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made";
    let (papers, ports) = (Papers::new(), [Port::claim().unwrap(), Port::claim().unwrap()]);
    let [certificate, password] = ports.each_ref().map(Port::number);
    let change = |settings: String| with_tls(&settings, &papers, [certificate, password]);
    let Some(stand) = Stand::private(trial, change) else { return };
    let at = |scheme: &str, pace: &str, (host, settings): &(&str, String)| {
        stand.open_at(&format!("{scheme}://{host}:{certificate}"), &format!("{pace}&{settings}"))
    };
    let target = at("kafkas", RIGHT, &papers.right());
    target.ping().await.unwrap();
    assert_eq!(send(&target, vec![event("by certificate", "t")]).await, [Ok(())]);

    let wrong = papers.wrong().map(|wrong| ("kafkas", format!("{}:{certificate}", wrong.0), wrong));
    // This listener speaks with nobody in the clear.
    let in_the_clear = ("kafka", "no broker can be reached".to_owned(), ("localhost", String::new()));
    for (scheme, says, wrong) in wrong.into_iter().chain([in_the_clear]) {
        let target = at(scheme, QUICK, &wrong);
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains(&says), "{wrong:?}: {error}");
        let answers = send(&target, vec![event("no", "t")]).await;
        assert_eq!(answers[0].as_ref().unwrap_err().kind, DeliverKind::Unavailable, "{answers:?}");
    }

    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let as_user = |word: &str, pace: &str| {
            let url = format!("kafkas://me:{word}@localhost:{password}");
            stand.open_at(&url, &format!("{pace}&sslrootcert={}&sasl={mechanism}", papers.trusted))
        };
        let target = as_user("hunter2", RIGHT);
        target.ping().await.unwrap();
        assert_eq!(send(&target, vec![event(mechanism, "t")]).await, [Ok(())]);
        let target = as_user("hunter3", QUICK);
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains("uthentication") && !error.contains("hunter3"), "{mechanism}: {error}");
        let answers = send(&target, vec![event("no", "t")]).await;
        assert_eq!(answers[0].as_ref().unwrap_err().kind, DeliverKind::Unavailable, "{answers:?}");
    }
    let missing = KafkaBroker::at(&format!("kafkas://h?sslrootcert={}", papers.missing()));
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
    let mut ids = stand.ids("t");
    ids.sort_unstable();
    assert_eq!(ids, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "by certificate"]);
}
