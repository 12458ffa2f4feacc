//! Four roles, each with no more rights than it needs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste::ErrorKind;
use posthaste::admin::{Actor, Command, Filter, Pace, Page, Seek, all_lanes};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::review::AuditFilter;
use posthaste::schema::Backend;
use posthaste::store::{Outcome, Owner, Room, Settled, Then};
use posthaste::target::{DeliverError, DeliverKind};
use tokio_postgres::Client;

use crate::postgres_access::scope::{Scope, connect};

/// The users of the roles, on the whole server: made once, whoever comes first.
const USERS: &str = "
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'access_shop') THEN
            CREATE ROLE access_shop LOGIN; CREATE ROLE access_carrier LOGIN; CREATE ROLE access_deployer LOGIN;
            CREATE ROLE access_operator LOGIN;
        END IF;
        GRANT posthaste_publish TO access_shop;
        GRANT posthaste_relay TO access_carrier;
        GRANT posthaste_operate TO access_operator;
        GRANT posthaste_migrate TO access_deployer;
        ALTER ROLE access_deployer SET role = posthaste_migrate;
    END $$";

/// Makes roles, tables and rights as the printed text says: before the tables, and after them.
pub(crate) async fn with_roles(scope: &Scope) {
    let (admin, roles) = (scope.session().await, posthaste_core::sql::postgres_roles(&Default::default()));
    // Roles belong to the server, which tests share; a lock belongs to a database, so it is taken in the one that all share.
    let shared = connect(&scope.server).await;
    shared.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7070)").await.unwrap();
    admin.batch_execute(&roles).await.unwrap();
    admin.batch_execute(USERS).await.unwrap();
    let deployer = posthaste::store::open(&scope.url_of("access_deployer")).await.unwrap();
    assert!(!deployer.migrate().await.unwrap().is_empty());
    admin.batch_execute(&roles).await.unwrap();
    shared.batch_execute("COMMIT").await.unwrap();
}

async fn code(session: &Client, statement: &str) -> String {
    match session.batch_execute(statement).await {
        Ok(()) => "it was done".to_owned(),
        Err(error) => error.code().map_or("no code".to_owned(), |code| code.code().to_owned()),
    }
}

#[tokio::test]
async fn each_role_can_do_its_work_and_nothing_else() {
    let Some(scope) = Scope::new("roles::each_role_can_do_its_work_and_nothing_else").await else { return };
    with_roles(&scope).await;
    let mut shop = connect(&scope.url_of("access_shop")).await;
    let mut tx = shop.transaction().await.unwrap();
    let outbox = Outbox::new("/shop");
    outbox.publish(&mut tx, Publish::raw("x", "{}").key("k").id("one")).await.unwrap();
    outbox.publish(&mut tx, Publish::raw("x", "{}").key("k").id("one").once()).await.unwrap();
    outbox.publish(&mut tx, Publish::raw("x", "{}").key("k")).await.unwrap();
    tx.commit().await.unwrap();
    for statement in [
        "SELECT FROM posthaste_events",
        "SELECT FROM posthaste_lanes",
        "UPDATE posthaste_events SET payload = NULL",
        "DELETE FROM posthaste_events",
        "TRUNCATE posthaste_events",
        "INSERT INTO posthaste_events (event_id, event_type, payload, seq) VALUES ('a', 'x', '', 1)",
        "INSERT INTO posthaste_events (event_id, event_type, payload, xid) VALUES ('a', 'x', '', '3')",
        "SELECT setval('posthaste_events_seq', 1)",
        "INSERT INTO posthaste_ticks (id, snap, last_seq, low) VALUES (9, '3:3:', 0, 0)",
        "CREATE TABLE mine (a int)",
    ] {
        assert_eq!(code(&shop, statement).await, "42501", "{statement}");
    }
    let carrier = connect(&scope.url_of("access_carrier")).await;
    for statement in [
        "CREATE TABLE mine (a int)",
        "ALTER TABLE posthaste_events ADD COLUMN a int",
        "DROP TABLE posthaste_lanes",
        "TRUNCATE posthaste_events",
        "UPDATE posthaste_events SET seq = seq + 1",
        "UPDATE posthaste_ticks SET snap = '3:3:'",
        "UPDATE posthaste_meta SET schema = 900",
        "DELETE FROM posthaste_audit",
        "UPDATE posthaste_audit SET actor = 'somebody else'",
        "SELECT nextval('posthaste_events_seq')",
        "INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('a', 'x', '')",
    ] {
        assert_eq!(code(&carrier, statement).await, "42501", "{statement}");
    }
    let operator = connect(&scope.url_of("access_operator")).await;
    for statement in NOT_FOR_OPERATORS {
        assert_eq!(code(&operator, statement).await, "42501", "{statement}");
    }
    let store = posthaste::store::open(&scope.url_of("access_carrier")).await.unwrap();
    let by_hand = posthaste::store::open(&scope.url_of("access_operator")).await.unwrap();
    carry(&store, &by_hand).await;
    let refused =
        by_hand.acquire(&LaneSpec::new("mine".parse().unwrap()), &Owner::new("me")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    // Publishing through the store is no right of the relay's: said with what to do, and nothing is lost.
    let refused = store.publish(vec![Envelope::new("x", "{}")]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    assert!(refused.to_string().contains("posthaste migrate print --roles"), "{refused}");
    scope.end().await;
}

/// A right that a relay comes to need only later, at a takeover or a first failure, is missed before it drives a lane.
#[tokio::test]
async fn a_right_that_a_relay_lacks_is_named_before_it_drives_a_lane() {
    let trial = "roles::a_right_that_a_relay_lacks_is_named_before_it_drives_a_lane";
    let Some(scope) = Scope::new(trial).await else { return };
    with_roles(&scope).await;
    let admin = scope.session().await;
    let store = posthaste::store::open(&scope.url_of("access_carrier")).await.unwrap();
    let (lane, owner) = (LaneSpec::new("main".parse().unwrap()), Owner::new("carrier"));
    for (right, table) in [
        ("SELECT", "events"),
        ("INSERT", "ticks"),
        ("UPDATE", "lanes"),
        ("DELETE", "parked"),
        ("INSERT", "audit"),
    ] {
        let revoke = format!("REVOKE {right} ON posthaste_{table} FROM posthaste_relay");
        admin.batch_execute(&revoke).await.unwrap();
        let refused = store.acquire(&lane, &owner).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config, "{revoke}: {refused}");
        assert!(refused.to_string().contains(&format!("posthaste_{table}")), "{revoke}: {refused}");
        let grant = format!("GRANT {right} ON posthaste_{table} TO posthaste_relay");
        admin.batch_execute(&grant).await.unwrap();
    }
    assert!(store.acquire(&lane, &owner).await.unwrap().is_some());
    scope.end().await;
}

/// What whoever operates must not do: publish, drive lanes, hand out keys, change the tables, and above all the record.
const NOT_FOR_OPERATORS: [&str; 12] = [
    "UPDATE posthaste_audit SET actor = 'somebody else'",
    "DELETE FROM posthaste_audit",
    "TRUNCATE posthaste_audit",
    "INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('a', 'x', '')",
    "UPDATE posthaste_events SET event_type = 'y'",
    "SELECT nextval('posthaste_events_seq')",
    "INSERT INTO posthaste_lanes (lane, tick_a) VALUES ('mine', 0)",
    "INSERT INTO posthaste_relays (run, name, version) VALUES ('a', 'b', 'c')",
    "SELECT FROM posthaste_keys",
    "INSERT INTO posthaste_keys (name, hash) VALUES ('mine', '')",
    "INSERT INTO posthaste_inbox (consumer, event_id, source) VALUES ('a', 'b', 'c')",
    "CREATE TABLE mine (a int)",
];

/// Everything that a relay does, and by another user everything that an operator does.
async fn carry(store: &Arc<dyn Backend>, operator: &Arc<dyn Backend>) {
    let lane = LaneSpec::new("main".parse().unwrap());
    let owner = Owner::new("carrier");
    assert!(store.status().await.unwrap().usable());
    let lease = store.acquire(&lane, &owner).await.unwrap().expect("it is free");
    let claimed = store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
    assert_eq!(claimed.len(), 2, "once was stored once");
    let dead = || Outcome::Dead { error: DeliverError::new(DeliverKind::Failed, "no", "no") };
    let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, dead())).collect();
    store.settle(&lease, outcomes, Then::Hold).await.unwrap();
    let (by, mut of_lane) = (Actor::new("test", "test"), Filter::default());
    of_lane.lane = Some(lane.name.clone());
    let redrive =
        operator.apply(&of_lane, Command::Redrive { dry_run: false }, &by, &Pace::full()).await.unwrap();
    assert_eq!(redrive.changed, 2);
    let claimed = store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
    let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, Outcome::Delivered)).collect();
    store.settle(&lease, outcomes, Then::GiveUp).await.unwrap();
    assert_eq!(operator.find(&of_lane, Page::first(10)).await.unwrap().records.len(), 2);
    let now = Some(Duration::ZERO);
    for (filter, command) in [
        (&of_lane, Command::Replay { dry_run: false }),
        (&of_lane, Command::Discard { reason: "test".to_owned(), dry_run: false }),
        (&of_lane, Command::Erase { dry_run: false }),
        (&of_lane, Command::Pause),
        (&of_lane, Command::Resume),
        (&of_lane, Command::Seek { to: Seek::End, dry_run: false }),
        (&Filter::default(), Command::Prune { delivered_age: now, dead_age: now, dry_run: false }),
        (&Filter::default(), Command::PruneInbox { age: Duration::ZERO, dry_run: false }),
        (&of_lane, Command::Remove { dry_run: false }),
    ] {
        let name = command.name().to_owned();
        operator
            .apply(filter, command, &by, &Pace::full())
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let mut all = AuditFilter::default();
    all.with_unchanged = true;
    let audited = operator.audited(&all, Page::first(100)).await.unwrap();
    let verbs: HashSet<&str> = audited.entries.iter().map(|entry| entry.command.as_str()).collect();
    assert_eq!(verbs.len(), 10, "every command is in the record: {verbs:?}");
    assert!(operator.dead_by_code(&Filter::default()).await.unwrap().groups.is_empty());
    assert_eq!(all_lanes(&**operator).await.unwrap().len(), 0);
    // A server does retention by itself, with the rights of a relay.
    let prune = Command::Prune { delivered_age: now, dead_age: None, dry_run: false };
    store.apply(&Filter::default(), prune, &by, &Pace::full()).await.unwrap();
    store.add("first", &[7; 32]).await.unwrap();
    assert_eq!(store.name_of(&[7; 32]).await.unwrap().as_deref(), Some("first"));
}
