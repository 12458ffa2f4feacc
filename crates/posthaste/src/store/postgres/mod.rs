//! The log engine on a Postgres server.
//!
//! Transactions commit in another order than they take their numbers, so a number is not a place here. A
//! relay that finds something new stores what is visible at that moment, a *tick* (`tick.rs`). A lane has
//! settled what one tick sees and reads what a later one sees beyond it (`cursor.rs`, `claim/`). Nothing is
//! skipped, and nothing waits for a transaction that stays open.
//!
//! Every statement is sent with its types and without a name, and nothing is kept in a session: the store
//! works behind a pooler in transaction mode, and the laws also run through PgBouncer. The busiest statements
//! are functions in the database, whose plans each session keeps.
//!
//! Where a store may choose, this one does so:
//! * A row *behind* its key is stored as such and has no due time. The transaction that removes or kills what
//!   it waited for makes it due (`promote.sql`). Settles and operators' commands lock the lane's row first,
//!   so that they run one after another and no head leaves while a follower is being parked. Acquiring
//!   repairs it all the same.
//! * Times are the database's; a relay's clock decides nothing here.
//! * Without any lane nothing is pruned: nobody has read anything yet.
//! * A future that is dropped rolls its transaction back. A dropped settle makes its lease unusable, because
//!   nobody knows whether it was committed.
//! * A stale relay, and a server that lost its last moments, record nothing: claims and settles demand the
//!   ticks and tokens that the lease knows (`claim/window.rs`, `settle.rs`). The relay then acquires the lane
//!   again.

mod acquire;
mod admin;
mod check;
mod claim;
mod cursor;
mod dedup;
mod error;
mod examine;
mod home;
mod keys;
mod log;
mod migrate;
mod parking;
mod peek;
mod pool;
mod probe;
mod publish;
mod rhythm;
mod rows;
mod settle;
mod snapshot;
pub(in crate::store) mod table;
mod tick;
mod tls;
mod value;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::Object;
use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::lane::LaneSpec;
use posthaste_core::prefix::TablePrefix;
use posthaste_core::publisher::{Published, Publisher};
use posthaste_core::schema::{Schema, SchemaStatus};
use posthaste_core::signal::Signal;
use posthaste_core::sql::PostgresSql;
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::{BoxFuture, Result, crash};

use self::check::Checked;
use self::claim::{Claim, NextWindow, rows_of_a_short_page};
use self::cursor::{Cursor, Window};
use self::error::explain;
use self::home::Home;
use self::peek::OwnIds;
use self::pool::{Connection, Connections, begin, begin_looking, begin_migrating, begin_on_lane, commit};
use self::settle::Settle;
use self::tick::{Asking, Look, Tick};
use super::StoreOptions;
use super::waiting::Waiting;

/// When so much waits to be recorded, a claim does not leave it to the relay's next settle.
const TO_PARK_MAX: usize = 10_000;

/// A store in a Postgres database.
pub struct PostgresStore {
    connections: Connections,
    prefix: TablePrefix,
    sql: PostgresSql,
    /// The same with calls of the functions that the database has for the busiest statements.
    calling: PostgresSql,
    signal: Signal,
    payload_bytes_max: usize,
    waiting: Waiting,
    /// The tables were seen to be of a version that this binary understands.
    is_understood: AtomicBool,
    checked: Checked,
    /// The database has these functions; asked with each check.
    has_functions: AtomicBool,
    home: Home,
    own_ids: OwnIds,
}

impl PostgresStore {
    /// Opens the database at this URL: `postgres://user:password@host:5432/database`. Nothing is connected before it is
    /// needed, so that a server that is away is an error of what needs it, and no tables are made
    /// ([`migrate`](Schema::migrate) does that).
    ///
    /// To another machine connections are encrypted and its certificate is verified, unless the URL says
    /// `sslmode=disable`. `sslrootcert=FILE` names the CA (without it the system's are trusted), `sslcert=FILE` and
    /// `sslkey=FILE` a client certificate.
    ///
    /// # Errors
    /// `Config` for a URL that cannot be used.
    pub fn open(url: &str, options: StoreOptions) -> Result<Self> {
        Ok(Self {
            connections: Connections::open(url, &options)?,
            sql: PostgresSql::new(&options.prefix),
            calling: PostgresSql::calling(&options.prefix),
            prefix: options.prefix,
            signal: options.signal,
            payload_bytes_max: options.payload_bytes_max,
            waiting: Waiting::default(),
            is_understood: AtomicBool::new(false),
            checked: Checked::default(),
            has_functions: AtomicBool::new(false),
            home: Home::default(),
            own_ids: OwnIds::default(),
        })
    }

    /// A connection to tables that this binary understands, which is asked once and at each acquisition.
    async fn client(&self) -> Result<Connection> {
        let client = self.connections.get().await?;
        if !self.is_understood.load(Ordering::Relaxed) {
            migrate::understand(&client, &self.sql).await?;
            self.is_understood.store(true, Ordering::Relaxed);
        }
        Ok(client)
    }

    /// The statements of claims and settles.
    fn busy_sql(&self) -> &PostgresSql {
        if self.has_functions.load(Ordering::Relaxed) { &self.calling } else { &self.sql }
    }

    /// Refuses a server or tables on which events could be lost, delivered twice or out of order.
    ///
    /// In a transaction, so that its limits hold: an administrator who changes a table may lock it for hours.
    async fn check(&self, client: &mut Connection) -> Result<()> {
        self.checked.begin();
        self.own_ids.forget();
        let tx = begin_looking(client).await?;
        migrate::understand(tx.client(), &self.sql).await?;
        let has_functions = migrate::has_functions(tx.client(), &self.prefix).await.map_err(explain)?;
        self.has_functions.store(has_functions, Ordering::Relaxed);
        let problem = check::check(tx.client(), &self.sql, self.prefix.as_str()).await?;
        commit(tx).await?;
        let Some(problem) = problem else { return Ok(()) };
        self.checked.failed();
        check::tell_lanes(client, &self.sql, &problem).await;
        Err(problem.into())
    }

    async fn acquire_lane(&self, lane: &LaneSpec, owner: &Owner) -> Result<Option<Lease>> {
        let mut client = self.connections.get().await?;
        self.check(&mut client).await?;
        let known = acquire::look(&client, self.busy_sql(), lane).await?;
        let tx = begin_on_lane(&mut client, lane.lease).await?;
        let taken = acquire::take(&tx, &self.sql, lane, owner, &known).await.map_err(explain)?;
        let wanted = match &taken {
            Some(_) => Ok(()),
            None => acquire::want(&tx, &self.sql, lane, owner).await,
        };
        // Also after a clash: that this relay lives is noted with it.
        commit(tx).await?;
        wanted?;
        let Some(taken) = taken else { return Ok(None) };
        let reading = acquire::reading(&client, &self.sql, lane, &taken).await?;
        // Listens before the first claim, so that no publish between a claim and a wait goes unheard.
        self.waiting.listen(&lane.name, &self.signal);
        let cursor = Arc::new(Cursor::new(lane.clone(), owner.run.clone(), taken.epoch, reading));
        let lease = Lease::new(lane.name.clone(), taken.epoch, lane.lease, cursor);
        Ok(Some(lease.with_stumbles(taken.stumbles)))
    }

    async fn claim_events(&self, lease: &Lease, room: Room) -> Result<Vec<Claimed>> {
        let cursor = Cursor::of(lease)?;
        if room.events == 0 {
            return Ok(Vec::new());
        }
        let one_at_a_time = cursor.claiming.lock().await;
        cursor.rhythm.gather().await;
        let mut client = self.client().await?;
        if client.is_new() || self.checked.is_due() {
            self.check(&mut client).await?;
        }
        let answer = loop {
            let next = self.next_window(&client, &cursor, room).await?;
            let mut claim = Claim::begin([self.busy_sql(), &self.sql], &cursor, room, next.window);
            if !claim.may_be_one_statement() || !read_alone(&mut claim, &mut client, next.is_waiting).await? {
                let tx = begin_looking(&mut client).await?;
                claim.read(&tx).await?;
                commit(tx).await?;
            }
            let answer = claim.end();
            // This look did not make the tick, so newer events may follow it.
            if next.is_now || !answer.is_only_passed() {
                break answer;
            }
        };
        drop(one_at_a_time);
        crash::point("claim: read");
        if answer.to_park > 0 || answer.is_partial && answer.claimed.is_empty() {
            // Asks the relay to come back, also one that leaves when nothing is due.
            lease.note_unrecorded();
        }
        self.waiting.claimed(lease.lane(), !answer.claimed.is_empty(), answer.is_partial);
        let is_much = answer.to_park > TO_PARK_MAX;
        if is_much && self.settle_events(lease, Vec::new(), Then::Hold).await? == Standing::Lost {
            return Ok(Vec::new());
        }
        Ok(answer.claimed)
    }

    /// The window after the last one, if that was read to its end.
    async fn next_window(&self, client: &Object, cursor: &Cursor, room: Room) -> Result<Next> {
        let (is_open, newest, has_parked) = {
            let reading = cursor.lock();
            (reading.window().is_some(), Arc::clone(&reading.newest), reading.has_parked)
        };
        if is_open {
            return Ok(Next { window: None, is_now: false, is_waiting: None });
        }
        let is_short = cursor.rhythm.expects_few();
        cursor.rhythm.looks();
        if !has_parked && !cursor.probe.forces() {
            let is_quiet = cursor.peek.is_quiet(client, &self.sql, &self.own_ids, newest.id).await;
            if is_quiet.map_err(explain)? {
                return Ok(Next { window: None, is_now: false, is_waiting: Some(false) });
            }
        }
        let asking = Asking { client, sql: self.busy_sql(), home: &self.home };
        let rows = if is_short && !has_parked { rows_of_a_short_page(room) } else { 0 };
        let found = newest.next(&asking, cursor, rows).await?;
        self.note(&found, cursor, &newest);
        Ok(Next {
            is_now: found.is_ours,
            is_waiting: Some(found.is_waiting == Some(true)),
            window: found.tick.map(|tick| NextWindow {
                window: Arc::new(Window { a: newest, b: Arc::new(tick) }),
                first_page: found.page,
                is_short,
            }),
        })
    }

    /// Remembers what the next peek compares with.
    fn note(&self, found: &Look, cursor: &Cursor, newest: &Tick) {
        self.own_ids.add(found.own_id);
        match &found.seen {
            Some(seen) if found.says_all() => {
                let tick = found.tick.as_ref().map_or(newest.id, |tick| tick.id);
                cursor.peek.looked(tick, seen.clone(), &self.own_ids);
            }
            _ => cursor.peek.forget(),
        }
    }

    async fn settle_events(&self, lease: &Lease, outcomes: Vec<Settled>, then: Then) -> Result<Standing> {
        let cursor = Cursor::of(lease)?;
        let _one_at_a_time = cursor.settling.lock().await;
        let Some(settle) = Settle::begin(self.busy_sql(), &cursor, outcomes, then, lease.length()) else {
            return Ok(Standing::Lost);
        };
        // From here on only a commit makes the cursor right again, also if this future is dropped.
        let unsure = settle.unsure();
        let mut client = self.client().await?;
        let recorded = if settle.is_one_statement() {
            crash::point("settle: before commit");
            settle.record_alone(&client).await.map_err(explain)?
        } else {
            let tx = begin_on_lane(&mut client, lease.length()).await?;
            let recorded = settle.record(&tx).await.map_err(explain)?;
            crash::point("settle: before commit");
            commit(tx).await?;
            recorded
        };
        crash::point("settle: after commit");
        let Some(recorded) = recorded else { return Ok(Standing::Lost) };
        self.own_ids.add(recorded.own_id);
        Ok(settle.tell(recorded, unsure))
    }

    async fn publish_events(&self, events: Vec<Envelope>) -> Result<Vec<Published>> {
        for event in &events {
            event.check(self.payload_bytes_max)?;
        }
        let mut client = self.client().await?;
        let tx = begin(&mut client).await?;
        let published = match publish::publish(&tx, &self.sql, &events).await {
            Ok(published) => published,
            Err(error) => {
                // Ended here and not left to a drop, so that nothing of it is there when the caller hears of it.
                tx.rollback().await.map_err(explain)?;
                return Err(error);
            }
        };
        crash::point("publish: before commit");
        commit(tx).await?;
        crash::point("publish: after commit");
        if published.contains(&Published::Now) {
            self.signal.ring();
        }
        Ok(published)
    }
}

/// What a claim reads next.
struct Next {
    /// The window that begins now, if there is something new.
    window: Option<NextWindow>,
    /// The window ends with what was visible just now.
    is_now: bool,
    /// Whether something waits in the lane, if anybody looked.
    is_waiting: Option<bool>,
}

/// Reads on without a transaction that has one snapshot; `false`: something is parked, and nothing was read.
async fn read_alone(claim: &mut Claim<'_>, on: &mut Connection, is_waiting: Option<bool>) -> Result<bool> {
    if !claim.sends_texts() {
        return claim.read_alone(plain(on), is_waiting).await;
    }
    on.begin_reading();
    let has_read = claim.read_alone(plain(on), is_waiting).await?;
    on.end_reading().await?;
    Ok(has_read)
}

/// The driver's own client.
fn plain(client: &Object) -> &tokio_postgres::Client {
    client
}

impl Store for PostgresStore {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            let taken = self.connections.watched(self.acquire_lane(lane, owner)).await;
            taken.map_err(|error| error.during(format!("acquire lane {}", lane.name)))
        })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move {
            let claimed = self.connections.watched(self.claim_events(lease, room)).await;
            claimed.map_err(|error| error.during(format!("claim from lane {}", lease.lane())))
        })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move {
            let standing = self.connections.watched(self.settle_events(lease, outcomes, then)).await;
            standing.map_err(|error| error.during(format!("settle lane {}", lease.lane())))
        })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(self.waiting.wait(&lane.name, &self.signal, at_most))
    }
}

impl Publisher for PostgresStore {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        Box::pin(self.connections.watched(self.publish_events(events)))
    }
}

impl Schema for PostgresStore {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        Box::pin(async move {
            let status = async {
                let client = self.connections.get().await?;
                migrate::status(&client, &self.sql).await.map_err(explain)
            };
            self.connections.watched(status).await
        })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        Box::pin(async move {
            let mut client = self.connections.get().await?;
            let tx = begin_migrating(&mut client).await?;
            let applied = migrate::apply_missing(&tx, &self.prefix, &self.sql).await?;
            commit(tx).await?;
            Ok(applied)
        })
    }

    /// The system identifier, the oid of the database, and the oid of the table `meta`, which differs by
    /// prefix and by schema. A promoted standby has the identity of its old primary.
    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(self.connections.watched(async move {
            let client = self.connections.get().await?;
            let row = client.query_typed_opt(&self.sql.identity, &[]).await;
            row.and_then(|row| row.map(|row| row.try_get(0)).transpose()).map_err(explain)
        }))
    }

    fn examine<'a>(&'a self, _: &'a [LaneSpec]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(examine::examine(self))
    }
}
