//! What a person does with the rights of `posthaste_operate`.

use posthaste::lane::LaneSpec;
use posthaste::store::{Outcome, Owner, Room, Settled, Then};
use posthaste::target::{DeliverError, DeliverKind};
use serde_json::{Value, json};

use crate::postgres::stand::{Stand, insert};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_finds_out_why_events_died_mends_it_and_is_in_the_record() {
    let trial = "operating::an_operator_finds_out_why_events_died_mends_it_and_is_in_the_record";
    let Some(stand) = Stand::new(trial).await else { return };
    let shop = stand.session("program_shop").await;
    for id in ["a", "b", "c"] {
        shop.batch_execute(&insert(id)).await.unwrap();
    }
    die(&stand, ["timeout", "http 400", "http 400"]).await;
    let operator = stand.url("program_operator");
    let json =
        |arguments: &[&str]| -> Value { stand.folder.json(&[arguments, &["--store", &operator]].concat()) };
    let codes = json(&["dead", "list", "--by", "code"]);
    let code =
        |n: usize| (&codes["codes"][n]["code"], &codes["codes"][n]["events"], &codes["codes"][n]["example"]);
    assert_eq!(code(0), (&json!("http 400"), &json!(2), &json!("c")), "{codes:#}");
    assert_eq!(code(1), (&json!("timeout"), &json!(1), &json!("a")), "{codes:#}");
    assert_eq!(json(&["dead", "list", "--error", "of TIMEOUT"])["events"][0]["id"], "a");
    json(&["lane", "pause", "main"]);
    assert_eq!(json(&["dead", "redrive", "--lane", "main", "--error", "of http"])["changed"], 2);
    json(&["lane", "resume", "main"]);
    let page = json(&["audit"]);
    let verbs: Vec<&Value> = page["entries"].as_array().unwrap().iter().map(|entry| &entry["verb"]).collect();
    assert_eq!(verbs, ["resume", "redrive", "pause"], "{page:#}");
    assert_eq!(page["entries"][1]["filter"], json!({"lane": "main", "state": "dead", "error": "of http"}));
    let session = stand.session("program_operator").await;
    for tamper in ["UPDATE posthaste_audit SET actor = 'nobody'", "DELETE FROM posthaste_audit"] {
        let refused = session.batch_execute(tamper).await.unwrap_err();
        assert_eq!(refused.code().map(|code| code.code()), Some("42501"), "{tamper}");
    }
    let carrier = stand.url("program_carrier");
    let relay =
        stand.folder.ok(&["relay", "--once", "--to", "null:", "--store", &carrier, "--output", "json"]);
    assert_eq!(relay.json()["delivered"], 2);
    drop((shop, session));
    stand.end().await;
}

/// The lane `main` reads what is there, and each event dies of its code.
async fn die(stand: &Stand, codes: [&str; 3]) {
    let store = posthaste::store::open(&stand.url("program_carrier")).await.unwrap();
    let lease =
        store.acquire(&LaneSpec::new("main".parse().unwrap()), &Owner::new("test")).await.unwrap().unwrap();
    let claimed = store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
    let dead = claimed.iter().zip(codes).map(|(claimed, code)| {
        let error = DeliverError::new(DeliverKind::Rejected, code, format!("Died of {code}"));
        Settled::new(claimed.ticket, Outcome::Dead { error })
    });
    let dead: Vec<_> = dead.collect();
    assert_eq!(dead.len(), 3);
    store.settle(&lease, dead, Then::GiveUp).await.unwrap();
}
