//! What reading costs a Postgres server, by its own plans and counts: a stopwatch would measure the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::admin::{Actor, Command, EventState, Filter, Pace, Page, Seek, all_lanes};
use posthaste::lane::LaneSpec;
use posthaste::prefix::TablePrefix;
use posthaste::relay::{Lane, Relay};
use posthaste::review::AuditFilter;
use posthaste::store::{Claimed, Lease, Outcome, Owner, Room, Settled, Standing, Store, StoreOptions, Then};
use posthaste::table::Profile;
use posthaste::target::null::NullTarget;
use posthaste::target::{DeliverError, DeliverKind};
use posthaste::{BoxFuture, Result};
use posthaste_core::sql::PostgresSql;
use posthaste_core::table::{Found, PostgresTableSql, Shape, postgres_table_ddl};
use posthaste_testkit::rig::{Rig, RigClock, RigMaker as _};
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};

const DEADLINE: Duration = Duration::from_secs(60);
const ROOM: Room = Room { events: 100, bytes: 1 << 20 };

/// A database with tables and a connection to it; `None`: there is no server.
async fn database(trial: &str) -> Option<(Arc<dyn Rig>, Client)> {
    let [direct, _] = crate::postgres::RIGS;
    if let Some(why) = direct.missing() {
        let is_ci = posthaste_testkit::harness::Settings::from_env().all_required;
        assert!(!is_ci, "cannot be had here: {why}");
        eprintln!("skipped: {trial}: {why}");
        return None;
    }
    let rig = direct.rig(RigClock::Host).await.unwrap();
    let client = connect(&*rig).await;
    Some((rig, client))
}

/// The rig's database for the owner of its tables, who may change them and what the server knows of them.
fn owners_url(rig: &dyn Rig) -> String {
    let (url, server) = (rig.url().unwrap(), crate::postgres::RIGS[0].server().unwrap());
    let (base, name) = (server.rsplit_once('/').unwrap().0, url.rsplit_once('/').unwrap().1);
    format!("{base}/{name}")
}

async fn connect(rig: &dyn Rig) -> Client {
    let (client, connection) = tokio_postgres::connect(&owners_url(rig), NoTls).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// How the server plans: with the values at hand, or as the functions do that keep their plans.
const PLANNERS: [&str; 2] = [
    "RESET plan_cache_mode; RESET enable_seqscan",
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off",
];

/// The look for something new as a statement with a name.
const LOOK: &str =
    "look (bigint, text, text, text[], bool, text, bigint, text, bigint, bigint, text, bigint)";

fn sql() -> PostgresSql {
    PostgresSql::new(&TablePrefix::default())
}

/// Inserts so many events as one transaction does.
fn insert(from: u32, count: u32) -> String {
    format!(
        "INSERT INTO posthaste_events (event_id, event_type, payload) \
         SELECT n::text, 'order.placed', '{{}}' FROM generate_series({from}, {from} + {count} - 1) n"
    )
}

/// The snapshot of now, and a tick with it that the page can be read up to.
async fn tick(client: &Client, id: i64) -> String {
    let made = format!(
        "INSERT INTO posthaste_ticks (id, snap, last_seq, low) \
         VALUES ({id}, pg_current_snapshot(), pg_sequence_last_value('posthaste_events_seq'), 0) RETURNING snap::text"
    );
    client.query_one(&made, &[]).await.unwrap().get(0)
}

/// How the server reads a page between these snapshots, beyond a number, and what it touched for that.
async fn explain_page(client: &Client, a: &str, b: &str, after: i64) -> String {
    let none = "00000000-0000-0000-0000-000000000000";
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    let prepare = format!(
        "PREPARE page (text, bigint, text, bigint, text, bigint, text, text, text, bigint, bigint, bigint, text, text) AS {}",
        sql().window_page
    );
    client.batch_execute(&prepare).await.unwrap();
    let values =
        format!("'main', 1, 'run', 0, '{none}', 1, '{none}', '{a}', '{b}', {after}, 1000, 0, '3', '3'");
    explain(client, &format!("EXECUTE page ({values})")).await
}

async fn explain(client: &Client, statement: &str) -> String {
    let plan =
        client.simple_query(&format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {statement}")).await.unwrap();
    let lines = plan.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How many blocks the whole statement touched.
fn blocks(plan: &str) -> u64 {
    let line = plan.lines().find(|line| line.contains("Buffers:")).unwrap();
    let count = |word: &str| {
        let rest = line.split(word).nth(1).unwrap_or_default();
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().unwrap_or_default()
    };
    count("hit=") + count("read=")
}

/// The server's idea of the table is from before an outage, when it was small; then very much came.
#[tokio::test]
async fn a_page_is_read_by_primary_key_whatever_the_statistics_say() {
    let Some((_rig, client)) = database("a_page_is_read_by_primary_key_whatever_the_statistics_say").await
    else {
        return;
    };
    client.batch_execute("ALTER TABLE posthaste_events SET (autovacuum_enabled = off)").await.unwrap();
    client.batch_execute(&insert(0, 2_000)).await.unwrap();
    client.batch_execute("ANALYZE posthaste_events").await.unwrap();
    let a = tick(&client, 1).await;
    client.batch_execute(&insert(2_000, 60_000)).await.unwrap();
    let b = tick(&client, 2).await;
    for (planner, after) in PLANNERS.into_iter().flat_map(|planner| [0, 2_000, 30_000].map(|n| (planner, n)))
    {
        client.batch_execute(planner).await.unwrap();
        let plan = explain_page(&client, &a, &b, after).await;
        assert!(plan.contains("Index Scan using posthaste_events_pkey"), "after {after}:\n{plan}");
        assert!(!plan.contains("Sort"), "after {after}:\n{plan}");
        assert!(!plan.contains("Gather"), "after {after}:\n{plan}");
        // The first page passes over what tick a sees; no page reads what lies before it, nor the whole window.
        assert!(blocks(&plan) < 150, "after {after}:\n{plan}");
    }
}

#[tokio::test]
async fn a_thousand_open_transactions_do_not_make_a_page_dearer() {
    let Some((_rig, client)) = database("a_thousand_open_transactions_do_not_make_a_page_dearer").await
    else {
        return;
    };
    client.batch_execute(&insert(0, 5_000)).await.unwrap();
    let b = tick(&client, 1).await;
    let xmax: u64 = b.split(':').nth(1).unwrap().parse().unwrap();
    // Ids that will be open: none of them wrote what is read.
    let open: Vec<String> = (xmax..xmax + 1_000).map(|id| id.to_string()).collect();
    let crowded = format!("{xmax}:{}:{}", xmax + 1_000, open.join(","));
    explain_page(&client, "3:3:", &b, 1_000).await;
    let (few, many) = (
        explain_page(&client, "3:3:", &b, 1_000).await,
        explain_page(&client, "3:3:", &crowded, 1_000).await,
    );
    let shape = |plan: &str| -> Vec<String> {
        plan.lines()
            .filter(|line| line.contains("->"))
            .map(|line| line.split('(').next().unwrap().into())
            .collect()
    };
    assert_eq!(shape(&few), shape(&many), "{few}\n{many}");
    assert_eq!(blocks(&few), blocks(&many), "{few}\n{many}");
    assert!(many.matches("rows=1000").count() >= 2, "the page is full:\n{many}");
}

/// Much was delivered from its row beyond a place that stands still: ending a few more, and forgetting a few when the place
/// moves, costs what these few cost.
#[tokio::test]
async fn ending_parked_events_costs_nothing_for_the_others_that_are_done() {
    let trial = "ending_parked_events_costs_nothing_for_the_others_that_are_done";
    let Some((_rig, client)) = database(trial).await else { return };
    client.batch_execute(&insert(0, 20_000)).await.unwrap();
    let fill = "INSERT INTO posthaste_lanes (lane, tick_a) VALUES ('main', 0);
        INSERT INTO posthaste_parked (lane, seq, state, available_at)
        SELECT 'main', seq, CASE WHEN seq <= 10 THEN 'leased' ELSE 'done' END, CASE WHEN seq <= 10 THEN now() END
        FROM posthaste_events";
    client.batch_execute(fill).await.unwrap();
    let texts = [
        ("ended (text, bigint[])", sql().unpark, "'main', '{1,2,3}'"),
        ("passed (text, bigint[])", sql().done_forget, "'main', '{11,12,13}'"),
    ];
    for has_statistics in [false, true] {
        if has_statistics {
            client.batch_execute("ANALYZE posthaste_events, posthaste_parked").await.unwrap();
        }
        for (head, text, values) in &texts {
            client.batch_execute("DEALLOCATE ALL").await.unwrap();
            client.batch_execute(&format!("PREPARE {head} AS {text}")).await.unwrap();
            client.batch_execute("BEGIN").await.unwrap();
            let name = head.split(' ').next().unwrap();
            let plan = explain(&client, &format!("EXECUTE {name} ({values})")).await;
            client.batch_execute("ROLLBACK").await.unwrap();
            assert!(blocks(&plan) < 150, "statistics {has_statistics}:\n{plan}");
        }
    }
}

/// Few are dead, and very many that are retried have higher numbers: looking for the dead ones costs what they cost.
#[tokio::test]
async fn dead_events_are_found_without_looking_at_what_is_retried() {
    let Some((rig, client)) = database("dead_events_are_found_without_looking_at_what_is_retried").await
    else {
        return;
    };
    client.batch_execute(&insert(0, 60_000)).await.unwrap();
    let fill = "INSERT INTO posthaste_lanes (lane, tick_a, spec) VALUES ('main', 0, '{\"topics\":[\"**\"]}'), ('other', 0, '{}');
        INSERT INTO posthaste_parked (lane, seq, state, available_at, dead_at)
        SELECT 'main', seq, CASE WHEN seq <= 50 THEN 'dead' ELSE 'retrying' END, CASE WHEN seq > 50 THEN now() END,
               CASE WHEN seq <= 50 THEN now() END
        FROM posthaste_events";
    client.batch_execute(fill).await.unwrap();
    for has_statistics in [false, true] {
        if has_statistics {
            client.batch_execute("ANALYZE posthaste_events, posthaste_parked").await.unwrap();
        }
        for lane in ["NULL", "'main'"] {
            client.batch_execute("DEALLOCATE ALL").await.unwrap();
            let text = sql().scan_ended_down;
            let prepare = format!("PREPARE ended (bigint, bigint, bigint, text, text) AS {text}");
            client.batch_execute(&prepare).await.unwrap();
            let plan = explain(&client, &format!("EXECUTE ended (0, 60000, 1000, {lane}, 'dead')")).await;
            assert!(blocks(&plan) < 400, "statistics {has_statistics}:\n{plan}");
        }
    }
    let store = rig.open().await.unwrap();
    let mut filter = Filter::default();
    filter.state = Some(EventState::Dead);
    let found = store.find(&filter, Page::first(100)).await.unwrap();
    assert_eq!((found.records.len(), found.next), (50, None));
    let stats = all_lanes(&*store).await.unwrap().remove(0);
    assert_eq!(stats.retrying, None, "too many to count");
    assert!(stats.oldest_waiting_at.is_some());
}

/// Few are dead, and very many were given up after them: these have a time of death too, and are not looked at.
#[tokio::test]
async fn what_is_dead_is_counted_behind_any_number_of_discarded_events() {
    let trial = "what_is_dead_is_counted_behind_any_number_of_discarded_events";
    let Some((rig, client)) = database(trial).await else { return };
    client.batch_execute(&insert(0, 60_000)).await.unwrap();
    let fill = "INSERT INTO posthaste_lanes (lane, tick_a, spec) VALUES ('main', 0, '{}');
        INSERT INTO posthaste_parked (lane, seq, state, code, dead_at)
        SELECT 'main', seq, CASE WHEN seq <= 50 THEN 'dead' ELSE 'discarded' END, 'x', now() + seq * interval '1 ms'
        FROM posthaste_events; ANALYZE posthaste_events, posthaste_parked";
    client.batch_execute(fill).await.unwrap();
    let codes = rig.open().await.unwrap().dead_by_code(&Filter::default()).await.unwrap();
    let told: Vec<_> = codes.groups.iter().map(|group| (group.code.as_deref(), group.events)).collect();
    assert_eq!((told, codes.is_partial), (vec![(Some("x"), 50)], false));
    let prepare = format!("PREPARE codes (text, text, text, bigint, bigint) AS {}", sql().dead_codes);
    client.batch_execute(&prepare).await.unwrap();
    let plan = explain(&client, "EXECUTE codes (NULL, NULL, NULL, 20000, 1000)").await;
    assert!(blocks(&plan) < 150, "{plan}");
}

/// Very many are dead and nothing waits: finding that out costs a few steps in an index, whatever the server knows of the states.
#[tokio::test]
async fn what_waits_is_counted_without_looking_at_what_is_dead() {
    let Some((_rig, client)) = database("what_waits_is_counted_without_looking_at_what_is_dead").await else {
        return;
    };
    client.batch_execute(&insert(0, 60_000)).await.unwrap();
    let fill = "INSERT INTO posthaste_lanes (lane, tick_a) VALUES ('main', 0);
        INSERT INTO posthaste_parked (lane, seq, state, dead_at) SELECT 'main', seq, 'dead', now() FROM posthaste_events";
    client.batch_execute(fill).await.unwrap();
    for has_statistics in [false, true] {
        if has_statistics {
            client.batch_execute("ANALYZE posthaste_events, posthaste_parked").await.unwrap();
        }
        client.batch_execute("DEALLOCATE ALL").await.unwrap();
        let prepare = format!("PREPARE waiting (bigint, text, bigint) AS {}", sql().lanes_waiting);
        client.batch_execute(&prepare).await.unwrap();
        let plan = explain(&client, "EXECUTE waiting (10001, '', 1001)").await;
        assert!(blocks(&plan) < 50, "statistics {has_statistics}:\n{plan}");
    }
}

/// One transaction wrote the whole log, and another one is open that wrote nothing: that it did not is found by the index of
/// transactions, though the planner believes that every row may be of any transaction.
#[tokio::test]
async fn a_log_of_one_transaction_is_not_read_for_what_another_wrote() {
    let Some((rig, client)) = database("a_log_of_one_transaction_is_not_read_for_what_another_wrote").await
    else {
        return;
    };
    client.batch_execute(&insert(0, 60_000)).await.unwrap();
    client.batch_execute("ANALYZE posthaste_events").await.unwrap();
    let holder = connect(&*rig).await;
    holder.batch_execute("BEGIN; SELECT pg_current_xact_id()").await.unwrap();
    // A snapshot ends with the latest transaction that is over: only before that one is the other seen as open.
    client.batch_execute("SELECT pg_current_xact_id()").await.unwrap();
    let a = tick(&client, 1).await;
    let (xmax, open) = (a.split(':').nth(1).unwrap(), a.split(':').nth(2).unwrap());
    assert!(!open.is_empty(), "the snapshot {a} has nothing open");
    holder.batch_execute("ROLLBACK").await.unwrap();
    client.batch_execute("INSERT INTO posthaste_lanes (lane, tick_a) VALUES ('main', 1)").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    let none = "00000000-0000-0000-0000-000000000000";
    let token: String = {
        let asked = "SELECT token::text FROM posthaste_ticks WHERE id = 1";
        client.query_one(asked, &[]).await.unwrap().get(0)
    };
    let statements = [
        (
            LOOK,
            sql().tick,
            format!("1, '{token}', '{xmax}', '{{{open}}}', false, 'main', 1, 'run', 100, 60000, '{a}', NULL"),
        ),
        (
            "page (text, bigint, text, bigint, text, bigint, text, text, text, bigint, bigint, bigint, text, text, text[])",
            sql().window_begin,
            format!(
                "'main', 1, 'run', 0, '{none}', 1, '{none}', '{a}', '{a}', 0, 1000, 60000, '{xmax}', '{xmax}', '{{{open}}}'"
            ),
        ),
        ("lanes (text, bigint)", sql().lanes_all, "'', NULL".to_owned()),
        (
            "take (text, text, text, bigint, text)",
            sql().lane_take,
            "'main', 'me', 'run', 1000000, '{}'".to_owned(),
        ),
    ];
    // The first two are functions too.
    let [values_at_hand, kept] = PLANNERS;
    let planned = statements.iter().map(|statement| (values_at_hand, statement));
    for (planner, (head, text, values)) in
        planned.chain(statements[..2].iter().map(|statement| (kept, statement)))
    {
        client.batch_execute(&format!("DEALLOCATE ALL; {planner}")).await.unwrap();
        client.batch_execute(&format!("PREPARE {head} AS {text}")).await.unwrap();
        let name = head.split(' ').next().unwrap();
        let values = if values.is_empty() { String::new() } else { format!("({values})") };
        let plan = explain(&client, &format!("EXECUTE {name} {values}")).await;
        assert!(blocks(&plan) < 100, "{name} with {planner:?}:\n{plan}");
    }
}

/// A seek over more than one step looks at: what is passed is counted once, with what commits late, and the record is one line.
#[tokio::test]
async fn a_lane_is_moved_over_a_long_log_in_steps() {
    let Some((rig, client)) = database("a_lane_is_moved_over_a_long_log_in_steps").await else { return };
    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    let late = connect(&*rig).await;
    late.batch_execute(&format!("BEGIN; {}", insert(900_000, 5))).await.unwrap();
    client.batch_execute(&insert(0, 10)).await.unwrap();
    let claimed = store.claim(&lease, ROOM).await.unwrap();
    let delivered = |claimed: &Claimed| Settled::new(claimed.ticket, Outcome::Delivered);
    store.settle(&lease, claimed.iter().map(delivered).collect(), Then::GiveUp).await.unwrap();
    client.batch_execute(&insert(10, 120_000)).await.unwrap();
    late.batch_execute("COMMIT").await.unwrap();
    let (mut filter, by) = (Filter::default(), Actor::new("test", "test"));
    filter.lane = Some("main".parse().unwrap());
    let seek = |to, dry_run| Command::Seek { to, dry_run };
    let dry = store.apply(&filter, seek(Seek::End, true), &by, &Pace::full()).await.unwrap();
    assert_eq!((dry.matched, dry.changed), (120_005, 0));
    let applied = store.apply(&filter, seek(Seek::End, false), &by, &Pace::full()).await.unwrap();
    assert_eq!((applied.matched, applied.changed), (120_005, 120_005));
    let stats = all_lanes(&*store).await.unwrap().remove(0);
    let totals = (stats.accepted, stats.delivered, stats.discarded, stats.unread);
    assert_eq!(totals, (120_015, 10, 120_005, 0));
    let record = store.audited(&AuditFilter::default(), Page::first(10)).await.unwrap().entries;
    assert_eq!((record.len(), record[0].applied.changed), (1, 120_005));
    assert!(record[0].filter.contains("\"parts\":3"), "{}", record[0].filter);
    let back = store.apply(&filter, seek(Seek::Beginning, false), &by, &Pace::full()).await.unwrap();
    assert_eq!(back.changed, 120_015);
    assert!(all_lanes(&*store).await.unwrap().remove(0).adds_up());
}

/// The look after a dear one makes a tick, and from then on what is not committed lies before the end of its
/// snapshot. Where no other transaction has ended meanwhile, that snapshot ends before what is not committed;
/// the tick itself is such a transaction, so that the next tick does it.
#[tokio::test]
async fn much_that_is_not_committed_makes_looks_dear_only_until_the_next_tick() {
    let trial = "much_that_is_not_committed_makes_looks_dear_only_until_the_next_tick";
    let Some((rig, client)) = database(trial).await else { return };
    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    let bulk = connect(&*rig).await;
    bulk.batch_execute("BEGIN").await.unwrap();
    bulk.batch_execute(&insert(0, 200_000)).await.unwrap();
    let before = look(&client).await;
    assert!(blocks(&before) > 200, "all of it is passed over:\n{before}");
    let start = Instant::now();
    let mut ticks = 0;
    loop {
        assert!(start.elapsed() < DEADLINE, "no tick although looking is dear");
        assert!(store.claim(&lease, ROOM).await.unwrap().is_empty(), "nothing is committed");
        if newest_tick(&client).await == ticks {
            continue;
        }
        ticks = newest_tick(&client).await;
        let after = look(&client).await;
        if blocks(&after) < 50 {
            break;
        }
        assert!(ticks < 2, "looking is as dear as before:\n{after}");
    }
    bulk.batch_execute("COMMIT").await.unwrap();
    let mut claimed = Vec::new();
    while claimed.is_empty() {
        assert!(start.elapsed() < DEADLINE, "what was committed late did not come");
        claimed = store.claim(&lease, ROOM).await.unwrap();
    }
    assert_eq!(claimed[0].parcel.envelope.id, "0", "from the first on");
}

async fn newest_tick(client: &Client) -> i64 {
    client.query_one("SELECT max(id) FROM posthaste_ticks", &[]).await.unwrap().get(0)
}

/// What a look beyond the newest tick costs, rolled back.
async fn look(client: &Client) -> String {
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    client.batch_execute(&format!("PREPARE {LOOK} AS {}", sql().tick)).await.unwrap();
    let newest = "SELECT id, token::text, pg_snapshot_xmax(snap)::text, snap::text FROM posthaste_ticks \
                  ORDER BY id DESC LIMIT 1";
    let row = client.query_one(newest, &[]).await.unwrap();
    let (id, token): (i64, String) = (row.get(0), row.get(1));
    let (xmax, snap): (String, String) = (row.get(2), row.get(3));
    client.batch_execute("BEGIN").await.unwrap();
    let values =
        format!("{id}, '{token}', '{xmax}', '{{}}', false, NULL, NULL, NULL, 100, 0, '{snap}', NULL");
    let plan = explain(client, &format!("EXECUTE look ({values})")).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    plan
}

/// The function that a tick asks takes the sequence's lock; `SELECT last_value` reads ahead while a number is given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_number_is_never_above_the_next_one() {
    let Some((rig, _client)) = database("the_last_number_is_never_above_the_next_one").await else { return };
    assert!(sql().tick.contains("pg_sequence_last_value("));
    let ask = "DO $$ DECLARE seen bigint; given bigint; BEGIN
        FOR n IN 1..60000 LOOP
            seen := coalesce(pg_sequence_last_value('posthaste_events_seq'), 0);
            given := nextval('posthaste_events_seq');
            IF seen >= given THEN RAISE EXCEPTION 'saw %, then got %', seen, given; END IF;
        END LOOP; END $$";
    let rig = &*rig;
    join_all((0..4).map(async |_| connect(rig).await.batch_execute(ask).await.unwrap())).await;
}

/// Counts settles.
struct Counting {
    inner: Arc<dyn Store>,
    settles: AtomicUsize,
}

impl Store for Counting {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.inner.acquire(lane, owner)
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        self.inner.claim(lease, room)
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        self.settles.fetch_add(1, Ordering::SeqCst);
        self.inner.settle(lease, outcomes, then)
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        self.inner.wait(lane, at_most)
    }
}

/// Each settle leaves a version of the lane's row that cannot be cleaned away, so there must be few of them: by time, and
/// not one per page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_leaves_few_versions_of_its_row_while_an_old_snapshot_is_held() {
    let trial = "a_lane_leaves_few_versions_of_its_row_while_an_old_snapshot_is_held";
    let Some((rig, client)) = database(trial).await else { return };
    client.batch_execute(&insert(0, 60_000)).await.unwrap();
    let holder = connect(&*rig).await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()").await.unwrap();
    let store = Arc::new(Counting { inner: rig.open().await.unwrap(), settles: AtomicUsize::new(0) });
    let lane = Lane::named("main").unwrap().window(100).to(Arc::new(NullTarget::new()));
    let start = Instant::now();
    let report = Relay::new(Arc::clone(&store) as Arc<dyn Store>).lane(lane).once().await.unwrap();
    assert_eq!(report.delivered, 60_000);
    let settles = store.settles.load(Ordering::SeqCst);
    // One in 50 ms, one when 8,000 answers are kept, the first and the last; there are 600 pages.
    let few = usize::try_from(start.elapsed().as_millis()).unwrap() / 50 + 60_000 / 8_000 + 4;
    assert!(settles <= few, "{settles} settles in {:?}", start.elapsed());
    let versions: i64 = client
        .query_one("SELECT pg_relation_size('posthaste_lanes') / current_setting('block_size')::bigint", &[])
        .await
        .unwrap()
        .get(0);
    assert!(versions as usize <= 2 + few / 10, "{versions} blocks for one row");
}

/// Very many rows of one moment: a claim in order reads about as many as it takes, by the indexes that `migrate print` shows.
#[tokio::test]
async fn rows_of_one_transaction_are_not_all_read_for_a_claim_in_order() {
    let trial = "rows_of_one_transaction_are_not_all_read_for_a_claim_in_order";
    let Some((_rig, client)) = database(trial).await else { return };
    let profile = Profile::open_outbox();
    client.batch_execute(&postgres_table_ddl(&profile)).await.unwrap();
    let rows = "INSERT INTO openoutbox_events (event_id, event_type, payload, partition_key)
        SELECT gen_random_uuid(), 'order.placed', '{}', 'k' || n % 1000 FROM generate_series(1, 60000) n";
    client.batch_execute(&format!("{rows}; ANALYZE openoutbox_events")).await.unwrap();
    let columns = "SELECT column_name::text, udt_name::text, is_nullable = 'YES' FROM information_schema.columns WHERE table_name = 'openoutbox_events'";
    let there = client.query(columns, &[]).await.unwrap();
    let found: Vec<Found> = there
        .iter()
        .filter_map(|row| {
            let (name, sql_type) = (row.get::<_, String>(0), row.get(1));
            let (column, _) = profile.columns.iter().find(|(_, known)| known.as_str() == name)?;
            Some(Found { name, kind: column.kinds()[0], sql_type, nullable: row.get(2), chars_max: None })
        })
        .collect();
    let sql = PostgresTableSql::new(Shape::of(profile, &found, true).unwrap(), true);
    // As the engine asks: without it the planner may prefer to read everything.
    client
        .batch_execute("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        .await
        .unwrap();
    let head = "PREPARE claim (text, int8, int8, timestamptz, text[], text[], text[]) AS";
    client.batch_execute(&format!("{head} {}", sql.claim_ordered_from_start)).await.unwrap();
    let plan = explain(&client, "EXECUTE claim ('token', 100, 1000000, NULL, '{}', '{}', '{}')").await;
    assert!(blocks(&plan) < 20_000, "{plan}");
}

/// The functions of this store that sessions have called last.
const CALLED: &str = "SELECT DISTINCT substring(query FROM 'FROM (posthaste_[a-z_]+)_[0-9a-f]{8}\\(') \
    FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'posthaste'";
const DROP_FUNCTIONS: &str = "DO $$ DECLARE name regprocedure; BEGIN
    FOR name IN SELECT oid FROM pg_proc WHERE proname ~ '^posthaste_(tick|window|lane)_' LOOP
        EXECUTE format('DROP FUNCTION %s', name);
    END LOOP; END $$";

async fn called(client: &Client) -> Vec<String> {
    let rows = client.query(CALLED, &[]).await.unwrap();
    rows.iter().filter_map(|row| row.get(0)).collect()
}

/// Claims everything under a new lease, settles it and gives the lane up.
async fn pass(store: &dyn Store) -> usize {
    let lease = store.acquire(&LaneSpec::new("main".parse().unwrap()), &Owner::new("test")).await.unwrap();
    let (lease, mut count) = (lease.unwrap(), 0);
    loop {
        let claimed = store.claim(&lease, ROOM).await.unwrap();
        let then = if claimed.is_empty() { Then::GiveUp } else { Then::Hold };
        let delivered: Vec<_> =
            claimed.iter().map(|claimed| Settled::new(claimed.ticket, Outcome::Delivered)).collect();
        let is_end = delivered.is_empty();
        count += delivered.len();
        store.settle(&lease, delivered, then).await.unwrap();
        if is_end {
            return count;
        }
    }
}

/// The plans of a function's statements are kept; where the functions are missing, the statements are sent
/// themselves.
#[tokio::test]
async fn the_busiest_statements_are_functions_and_do_without_them() {
    let trial = "the_busiest_statements_are_functions_and_do_without_them";
    let Some((rig, client)) = database(trial).await else { return };
    client.batch_execute(&insert(0, 3)).await.unwrap();
    let store = rig.open().await.unwrap();
    assert_eq!(pass(&*store).await, 3);
    assert_eq!(called(&client).await, ["posthaste_lane_settle"]);
    client.batch_execute(DROP_FUNCTIONS).await.unwrap();
    client.batch_execute(&insert(3, 4)).await.unwrap();
    assert_eq!(pass(&*store).await, 4);
    assert!(called(&client).await.is_empty());
    let owner = posthaste::store::open_with(&owners_url(&*rig), StoreOptions::default()).await.unwrap();
    owner.migrate().await.unwrap();
    client.batch_execute(&insert(7, 5)).await.unwrap();
    assert_eq!(pass(&*store).await, 5);
    assert_eq!(called(&client).await, ["posthaste_lane_settle"]);
}

/// What the store's sessions have asked last, without values and function names' checksums.
async fn asked_last(client: &Client) -> Vec<String> {
    let asked = "SELECT DISTINCT regexp_replace(query, '^.*FROM (posthaste_[a-z_]+)_[0-9a-f]{8}\\(.*$', '\\1') \
        FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'posthaste'";
    client
        .query(asked, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get::<_, String>(0).trim().to_owned())
        .collect()
}

async fn claimed_ids(store: &dyn Store, lease: &Lease) -> Vec<String> {
    let claimed = store.claim(lease, ROOM).await.unwrap();
    let delivered = claimed.iter().map(|claimed| Settled::new(claimed.ticket, Outcome::Delivered)).collect();
    assert_eq!(store.settle(lease, delivered, Then::Hold).await.unwrap(), Standing::Held);
    claimed.iter().map(|claimed| claimed.parcel.envelope.id.clone()).collect()
}

/// A lane that has little to do asks one statement when something is new, and one that reads no table when
/// nothing is. What other sessions do ends the quiet at once.
#[tokio::test]
async fn a_look_brings_the_first_events_and_a_peek_stands_for_a_look() {
    let trial = "a_look_brings_the_first_events_and_a_peek_stands_for_a_look";
    let Some((rig, client)) = database(trial).await else { return };
    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    assert!(store.claim(&lease, ROOM).await.unwrap().is_empty());
    let (start, mut alone, mut number) = (Instant::now(), 0, 0);
    while alone < 3 {
        assert!(start.elapsed() < DEADLINE, "no look brings its event");
        client.batch_execute(&insert(number, 1)).await.unwrap();
        let claimed = store.claim(&lease, ROOM).await.unwrap();
        assert_eq!(claimed[0].parcel.envelope.id, number.to_string());
        // If a transaction of any database has ended meanwhile, the store reads in a second statement.
        let asked = asked_last(&client).await;
        assert!(asked == ["posthaste_tick"] || asked == ["posthaste_window_begin"], "{asked:?}");
        alone += u32::from(asked == ["posthaste_tick"]);
        number += 1;
        let delivered = vec![Settled::new(claimed[0].ticket, Outcome::Delivered)];
        store.settle(&lease, delivered, Then::Hold).await.unwrap();
        let mut asked = Vec::new();
        let begun = Instant::now();
        while asked != [sql().peek.trim()] {
            assert!(begun.elapsed() < DEADLINE, "the lane never peeks: {asked:?}");
            assert!(store.claim(&lease, ROOM).await.unwrap().is_empty());
            asked = asked_last(&client).await;
        }
    }
    assert_eq!(newest_tick(&client).await, i64::from(number), "a tick for each event, and none for a peek");
}

/// A transaction that was open when the lane looked commits together with a later event: a look that makes
/// the next tick must not bring the later event alone.
#[tokio::test]
async fn a_look_that_brings_events_leaves_nothing_behind_that_committed_late() {
    let trial = "a_look_that_brings_events_leaves_nothing_behind_that_committed_late";
    let Some((rig, client)) = database(trial).await else { return };
    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    assert!(claimed_ids(&*store, &lease).await.is_empty());
    let late = connect(&*rig).await;
    for round in (0..30).step_by(10) {
        late.batch_execute(&format!("BEGIN; {}", insert(round, 2))).await.unwrap();
        client.batch_execute(&insert(round + 2, 1)).await.unwrap();
        assert_eq!(claimed_ids(&*store, &lease).await, [(round + 2).to_string()]);
        late.batch_execute("COMMIT").await.unwrap();
        client.batch_execute(&insert(round + 3, 1)).await.unwrap();
        let all = [round, round + 1, round + 3].map(|number| number.to_string());
        assert_eq!(claimed_ids(&*store, &lease).await, all);
    }
    assert!(claimed_ids(&*store, &lease).await.is_empty());
}

/// Dead letters stay for weeks. They lie before the place, and the lane need not look at them.
#[tokio::test]
async fn a_lane_with_dead_letters_reads_in_one_statement() {
    let Some((rig, client)) = database("a_lane_with_dead_letters_reads_in_one_statement").await else {
        return;
    };
    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    client.batch_execute(&insert(0, 1)).await.unwrap();
    let claimed = store.claim(&lease, ROOM).await.unwrap();
    let dead = Outcome::Dead { error: DeliverError::new(DeliverKind::Rejected, "no", "no") };
    store.settle(&lease, vec![Settled::new(claimed[0].ticket, dead)], Then::Hold).await.unwrap();
    for number in 1..4 {
        client.batch_execute(&insert(number, 1)).await.unwrap();
        assert_eq!(claimed_ids(&*store, &lease).await, [number.to_string()]);
    }
    client.batch_execute(&insert(4, 1)).await.unwrap();
    assert_eq!(store.claim(&lease, ROOM).await.unwrap().len(), 1);
    assert_eq!(asked_last(&client).await, ["posthaste_tick"]);
}

/// A look that finds an event costs the server more than the event. Looks of a lane that has little to do are
/// some milliseconds apart, so that several events share one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_trickle_in_share_looks() {
    let Some((rig, client)) = database("events_that_trickle_in_share_looks").await else { return };
    let store = rig.open().await.unwrap();
    let spec = LaneSpec::new("main".parse().unwrap());
    let lease = store.acquire(&spec, &Owner::new("test")).await.unwrap().unwrap();
    let (begun, mut claimed) = (Instant::now(), 0);
    for number in 0..100 {
        client.batch_execute(&insert(number, 1)).await.unwrap();
        claimed += store.claim(&lease, ROOM).await.unwrap().len();
    }
    let ticks = u128::try_from(newest_tick(&client).await).unwrap();
    assert!(claimed > 0);
    assert!(ticks <= begun.elapsed().as_millis() / 4 + 1, "{ticks} ticks in {:?}", begun.elapsed());
}
