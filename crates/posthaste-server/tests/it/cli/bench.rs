//! `posthaste bench relay` on Postgres: it prints what it promises, and leaves the database as it found it.

use tokio_postgres::NoTls;

use crate::cli::folder::Folder;
use crate::http_process::skip;

const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES";

/// Does this in the server's own database or in another one.
fn say(url: &str, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let asking = client.simple_query(sql);
        let answer =
            tokio::select! { answer = asking => answer, _ = connection => panic!("the server is away") };
        let cell = |message: &tokio_postgres::SimpleQueryMessage| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        answer.unwrap().iter().filter_map(cell).collect()
    })
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
fn relaying_is_measured_on_postgres_and_the_tables_are_gone_afterwards() {
    let trial = "bench::relaying_is_measured_on_postgres_and_the_tables_are_gone_afterwards";
    let Some(server) = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty()) else {
        return skip::say(trial, &format!("{VARIABLE} is not set"));
    };
    let name = format!("bench_test_{}", std::process::id());
    let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
    say(&server, &format!("CREATE DATABASE {name} TEMPLATE template0"));
    let folder = Folder::new();
    let arguments = ["bench", "relay", "--store", &url, "--events", "2000", "--size", "100", "--rounds", "1"];
    let arguments = [&arguments[..], &["--rate", "20,50", "--against", "rows", "--output", "json"]].concat();
    let answer = folder.ok(&arguments);
    let figures: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    for figure in [
        "events_per_second",
        "wal_bytes_per_event",
        "p50_ms",
        "p99_ms",
        "rss_mb",
        "ratio",
        "read_per_second",
        "claim_ms",
        "claim_ms_first_tenth",
        "settle_ms",
        "settle_ms_last_tenth",
    ] {
        assert!(figures[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {figures}");
    }
    assert!(figures.get("db_cpu_us_per_event").is_some(), "{figures}");
    let by_rate = figures["by_rate"].as_array().unwrap();
    assert_eq!(by_rate.iter().map(|at| &at["rate"]).collect::<Vec<_>>(), [20, 50]);
    for (at, figure) in
        by_rate.iter().flat_map(|at| ["p50_ms", "p99_ms", "ticks_per_second"].map(|f| (at, f)))
    {
        assert!(at[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {figures}");
    }
    assert!(by_rate.iter().all(|at| at.get("db_cpu_percent_inserts_alone").is_some()), "{figures}");
    let rounds = figures["rounds"].as_array().unwrap();
    assert!(rounds.len() == 3 && rounds.iter().all(|round| round["events"] == 2000), "{figures}");
    let left = "SELECT relname FROM pg_class WHERE relname LIKE 'bench%'";
    assert!(say(&url, left).is_empty(), "{:?}", say(&url, left));

    say(&url, "CREATE TABLE bench_mine ()");
    folder.run(&arguments).assert_failed(2, &["begin with bench_", "name another database"]);
    assert_eq!(say(&url, left), ["bench_mine"]);
    say(&server, &format!("DROP DATABASE {name} WITH (FORCE)"));
}
