//! Values that no store has, in every parameter of every route, on every kind of store: they are refused or
//! match nothing, and the server never fails.

use std::sync::Arc;

use posthaste::memory::Memory;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, TableOptions};
use posthaste::table::Profile;

use crate::http_api::client::Answer;
use crate::http_api::stand::Stand;
use crate::table::stand::{Base, Stand as TableStand};
use crate::verbs::ground::Ground;

/// What is not text to every store, or not UTF-8.
const NOT_TEXT: [&str; 5] = ["%00", "a%00b", "%ff", "%C3%28", "%ED%A0%80"];
/// What is text, and nothing else.
const TEXT: [&str; 12] = [
    "%F0%9F%98%80",
    "%E2%80%AE",
    "%0A",
    "%25",
    "%5C",
    "%27%3B--",
    "%22%5D",
    "-1",
    "99999999999999999999",
    "9999-12-31T23:59:59Z",
    "0000-01-01T00:00:00Z",
    "213503982334601d",
];
const FILTERS: [&str; 8] = ["lane", "type", "topic", "key", "since", "until", "code", "error"];
const AT_BROKERS: [&str; 2] = ["broker", "group"];
const VERBS: [&str; 13] = [
    "redrive",
    "replay",
    "discard",
    "bury",
    "schedule",
    "pause",
    "resume",
    "seek",
    "remove",
    "prune",
    "prune-inbox",
    "rebase",
    "erase",
];
const OF_COMMANDS: [&str; 6] = ["reason", "at", "to", "older_than", "dead_older_than", "rate"];

/// Every place of every route where a value can stand; `@` is the place.
fn places() -> Vec<(&'static str, String)> {
    let lists = [
        ("/v1/events", [&FILTERS[..], &["id", "state", "limit", "after", "no-such"]].concat()),
        ("/v1/events/a", [&AT_BROKERS[..], &["source"]].concat()),
        ("/v1/dead", [&FILTERS[..], &AT_BROKERS, &["id", "limit", "after"]].concat()),
        ("/v1/dead/codes", [&AT_BROKERS[..], &["lane", "code", "error"]].concat()),
        ("/v1/audit", vec!["actor", "verb", "since", "all", "limit", "after"]),
    ];
    let queries = lists
        .into_iter()
        .flat_map(|(path, names)| names.into_iter().map(move |name| ("GET", format!("{path}?{name}=@"))));
    let paths = ["/v1/events/@", "/v1/lanes/@", "/v1/jobs/@", "/v1/@", "/@"];
    let commands = VERBS.into_iter().flat_map(|verb| {
        let names = FILTERS.into_iter().chain(AT_BROKERS).chain(OF_COMMANDS).chain(["id"]);
        names.map(move |name| {
            let lane = if name == "lane" { "" } else { "lane=main&" };
            ("POST", format!("/v1/commands/{verb}?{lane}{name}=@&yes=true"))
        })
    });
    let verb = ("POST", "/v1/commands/@?lane=main".to_owned());
    queries.chain(paths.map(|path| ("GET", path.to_owned()))).chain(commands).chain([verb]).collect()
}

async fn nothing_strange_makes_the_server_fail(store: Arc<dyn Backend>) {
    let stand = Stand::over(store).await;
    for (method, place) in places() {
        for (value, is_text) in
            NOT_TEXT.map(|value| (value, false)).into_iter().chain(TEXT.map(|value| (value, true)))
        {
            let path = place.replace('@', value);
            let answer = stand.operator.ask(method, &path, &[], b"").await;
            assert!(answer.status < 500, "{method} {path}: {} {}", answer.status, answer.text());
            if !is_text {
                answer.problem(400);
            } else if answer.status >= 400 {
                answer.problem(answer.status);
            }
        }
    }
    stand.stopped().await;
}

#[tokio::test]
async fn nothing_strange_makes_a_server_on_memory_fail() {
    nothing_strange_makes_the_server_fail(Arc::new(Memory::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_strange_makes_a_server_on_sqlite_fail() {
    nothing_strange_makes_the_server_fail(Ground::sqlite_log().await.open().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_strange_makes_a_server_on_postgres_fail() {
    let Some(ground) = Ground::postgres_log("nothing_strange_makes_a_server_on_postgres_fail").await else {
        return;
    };
    nothing_strange_makes_the_server_fail(ground.open().await).await;
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_strange_makes_a_server_on_a_table_in_sqlite_fail() {
    nothing_strange_makes_the_server_fail(Ground::sqlite_table().await.open().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_strange_makes_a_server_on_a_table_on_postgres_fail() {
    let trial = "nothing_strange_makes_a_server_on_a_table_on_postgres_fail";
    let Some(ground) = Ground::postgres_table(trial).await else { return };
    nothing_strange_makes_the_server_fail(ground.open().await).await;
    ground.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_strange_makes_a_server_on_a_table_on_mariadb_fail() {
    let trial = "nothing_strange_makes_a_server_on_a_table_on_mariadb_fail";
    let Some(stand) = TableStand::new(Base::Mariadb, trial).await else { return };
    let table = TableOptions::new(Profile::open_outbox());
    let store = posthaste::store::open_table(&stand.url(), table, StoreOptions::default()).await.unwrap();
    nothing_strange_makes_the_server_fail(store).await;
    stand.end().await;
}

/// The status of a request with this head, and nothing else.
async fn status(stand: &Stand, head: &str) -> u16 {
    let answer = stand.client.raw(head.as_bytes()).await;
    let answer = Answer::parse(&answer).unwrap_or_else(|| panic!("no answer to {head}"));
    if answer.status != 200 {
        answer.problem(answer.status);
    }
    answer.status
}

#[tokio::test]
async fn a_request_without_a_host_or_with_two_is_refused() {
    let stand = Stand::start().await;
    let get =
        |version: &str, hosts: &str| format!("GET /healthz {version}\r\n{hosts}connection: close\r\n\r\n");
    for (head, expected) in [
        (get("HTTP/1.1", "host: a\r\n"), 200),
        (get("HTTP/1.1", ""), 400),
        (get("HTTP/1.1", "host: a\r\nhost: a\r\n"), 400),
        (get("HTTP/1.1", "host: a\r\nHOST: b\r\n"), 400),
        (get("HTTP/1.1", "host: a b\r\n"), 400),
        (get("HTTP/1.0", ""), 200),
    ] {
        assert_eq!(status(&stand, &head).await, expected, "{head}");
    }
    stand.stopped().await;
}

/// In either order, also in a later request of a connection.
#[tokio::test]
async fn a_request_with_two_lengths_is_refused_and_ends_its_connection() {
    let stand = Stand::start().await;
    let key = stand.client.key.clone().unwrap();
    let (length, encoding) = ("Content-Length: 12\r\n", "Transfer-Encoding: chunked\r\n");
    let post = format!("POST /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n");
    let body = "c\r\n{\"type\":\"x\"}\r\n0\r\n\r\n";
    for lengths in [format!("{length}{encoding}"), format!("{encoding}{length}")] {
        let smuggled = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
        let bytes = stand.client.raw(format!("{post}{lengths}\r\n{body}{smuggled}").as_bytes()).await;
        let answer = Answer::parse(&bytes).expect("an answer");
        assert!(answer.problem(400).contains("Transfer-Encoding"), "{}", answer.text());
        assert_eq!(answer.header("connection"), Some("close"));
    }
    assert_eq!(stand.client.get("/v1/events").await.json()["events"].as_array().map(Vec::len), Some(0));
    let alone = format!("{post}{encoding}connection: close\r\n\r\n{body}");
    let answer = Answer::parse(&stand.client.raw(alone.as_bytes()).await).expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.text());
    stand.stopped().await;
}
