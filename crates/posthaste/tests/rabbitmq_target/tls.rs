//! Encrypted connections: with the right CA, the right name and a certificate of our own, or not at all.

use posthaste::broker::amqp::AmqpBroker;
use posthaste::target::Target;
use tempfile::TempDir;

use crate::certificates::Ca;
use crate::stand::{Stand, event, send};

fn file(folder: &TempDir, name: &str, contents: &str) -> String {
    let file = folder.path().join(name);
    std::fs::write(&file, contents).unwrap();
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made() {
    let name = "a_connection_is_encrypted_and_both_sides_are_verified_or_it_is_not_made";
    let (folder, ca, stranger) = (TempDir::new().unwrap(), Ca::new("ours"), Ca::new("theirs"));
    let (server, client) = (ca.sign("localhost", 2100), ca.sign("client", 2100));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let trusted = file(&folder, "ca.pem", &ca.pem);
    let settings = format!(
        "listeners.ssl.default = 127.0.0.1:{port}\nssl_options.cacertfile = {trusted}\nssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\nssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
        file(&folder, "server.pem", &server.0),
        file(&folder, "server.key", &server.1),
    );
    let Some(stand) = Stand::private(name, |_| settings).await else { return };
    let queue = stand.queue("t", &[]).await;
    let certificate = format!(
        "sslcert={}&sslkey={}",
        file(&folder, "client.pem", &client.0),
        file(&folder, "client.key", &client.1)
    );
    let at = |host: &str, settings: &str| {
        let url = format!("amqps://guest:guest@{host}:{port}/%2f?exchange={}&{settings}", stand.name);
        AmqpBroker::at(&url).unwrap()
    };
    let target = at("localhost", &format!("sslrootcert={trusted}&{certificate}"));
    assert!(send(&target, vec![event("1", "t")]).await[0].is_ok());
    assert_eq!(stand.ids(&queue).await, ["1"]);

    let other = file(&folder, "other.pem", &stranger.pem);
    for (host, settings) in [
        ("localhost", format!("sslrootcert={other}&{certificate}")),
        ("127.0.0.1", format!("sslrootcert={trusted}&{certificate}")),
        ("localhost", format!("sslrootcert={trusted}")),
    ] {
        let error = at(host, &settings).ping().await.unwrap_err().to_string();
        assert!(error.contains(&format!("{host}:{port}")), "{error}");
    }
    let missing = AmqpBroker::at(&format!("amqps://h?sslrootcert={}", folder.path().join("no").display()));
    assert!(missing.unwrap_err().to_string().contains("cannot be read"));
}
