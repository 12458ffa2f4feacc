//! A small relay for the open-outbox table in SQLite, and the mistakes that it can be told to make.
//!
//! Without a mistake it meets every requirement that is about relays; so the kit is not made for one relay alone. With one, the
//! kit must say which requirement is not met.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::{Connection, params};

/// Names the mistake to make; without it this process is no relay.
pub(crate) const VARIABLE: &str = "POSTHASTE_SMALL_RELAY";

/// Every mistake, and the requirements that are not met by whoever makes it.
pub(crate) const MISTAKES: [(&str, &[&str]); 25] = [
    ("forgets what commits late", &["P2"]),
    ("changes headers", &["P3"]),
    ("skips a state", &["L1"]),
    ("publishes before it claims", &["L2"]),
    ("ignores when a row is due", &["L3", "X3"]),
    ("claims without a time", &["L4"]),
    ("keeps its lease", &["L5"]),
    ("counts no failure", &["L6"]),
    ("counts no lease that ended", &["L6"]),
    ("never gives up", &["L7"]),
    ("revives the dead", &["L8", "L1"]),
    ("records without its claim", &["L9"]),
    ("takes nothing over", &["S5", "L10"]),
    ("takes over too early", &["S5"]),
    ("takes more than it may", &["S1"]),
    ("claims what others claim", &["S4", "S2"]),
    ("publishes what is delivered", &["S3"]),
    ("sends twice", &["U1"]),
    ("records before it sends", &["U2"]),
    ("changes the payload", &["U3"]),
    ("leaves the key away", &["U4"]),
    ("gives no reason", &["U5", "L6"]),
    ("tries again at once", &["R2", "L6"]),
    ("leaves the id away", &["D2"]),
    ("knows no order", &["O1", "O2"]),
];

const NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";
const TIMEOUT: Duration = Duration::from_millis(400);

/// Relays for ever: `STORE TABLE LEASE POLL BATCH ATTEMPTS BACKOFF ORDER`.
pub(crate) fn main(mistake: &str) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, table, lease, poll, batch, attempts, backoff, order] = &arguments[..] else {
        eprintln!("STORE TABLE LEASE POLL BATCH ATTEMPTS BACKOFF ORDER, not {arguments:?}");
        return ExitCode::FAILURE;
    };
    let number = |text: &str| text.trim_end_matches("ms").parse::<i64>().unwrap();
    let connection = Connection::open(store.trim_start_matches("sqlite://")).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    // It renews no lease, so it must be quick; a power cut is not among the checks.
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let relay = Small {
        connection,
        table: table.clone(),
        mistake: mistake.to_owned(),
        lease_ms: number(lease),
        poll: Duration::from_millis(number(poll).unsigned_abs()),
        batch: number(batch),
        attempts_max: number(attempts),
        backoff_ms: number(backoff),
        ordered: order == "key",
        pen: pen(),
        token: format!("small-{}", std::process::id()),
        seen_up_to: std::cell::RefCell::default(),
    };
    relay.greet();
    loop {
        // A table that is locked or gone is looked at again.
        let sent = relay.turn().unwrap_or_default();
        if sent == 0 {
            std::thread::sleep(relay.poll);
        }
    }
}

struct Small {
    connection: Connection,
    table: String,
    mistake: String,
    lease_ms: i64,
    poll: Duration,
    batch: i64,
    attempts_max: i64,
    backoff_ms: i64,
    ordered: bool,
    pen: mpsc::Sender<(Vec<u8>, mpsc::Sender<()>)>,
    token: String,
    seen_up_to: std::cell::RefCell<String>,
}

struct Event {
    id: String,
    payload: Vec<u8>,
    headers: String,
    key: Option<String>,
    attempts: i64,
    created_at: String,
}

/// A thread that writes, so that a send can time out.
fn pen() -> mpsc::Sender<(Vec<u8>, mpsc::Sender<()>)> {
    let (pen, jobs) = mpsc::channel::<(Vec<u8>, mpsc::Sender<()>)>();
    std::thread::spawn(move || {
        for (line, done) in jobs {
            let mut out = std::io::stdout().lock();
            if out.write_all(&line).and_then(|()| out.flush()).is_ok() {
                // Nobody waiting any more is no mistake.
                let _ = done.send(());
            }
        }
    });
    pen
}

impl Small {
    fn makes(&self, mistake: &str) -> bool {
        self.mistake == mistake
    }

    fn run(&self, sql: &str) -> rusqlite::Result<usize> {
        self.connection.execute(&sql.replace("TABLE", &self.table), [])
    }

    fn greet(&self) {
        if self.makes("publishes what is delivered") {
            for event in self.read("status = 'DELIVERED'", 1_000).unwrap_or_default() {
                self.send(&event);
            }
        }
    }

    fn turn(&self) -> rusqlite::Result<usize> {
        let events = self.claim()?;
        for event in &events {
            self.deliver(event)?;
        }
        self.sweep()?;
        Ok(events.len())
    }

    fn sweep(&self) -> rusqlite::Result<()> {
        if self.makes("takes nothing over") {
            return Ok(());
        }
        let lease = if self.makes("takes over too early") { self.lease_ms / 4 } else { self.lease_ms };
        let counted = i64::from(!self.makes("counts no lease that ended"));
        let reason = if self.makes("gives no reason") { "NULL" } else { "'the lease has ended'" };
        let sql = format!(
            "UPDATE TABLE SET status = 'PENDING', attempts = attempts + {counted}, locked_by = NULL, locked_at = NULL, last_error = {reason}
             WHERE status = 'DELIVERING' AND locked_at <= strftime('%Y-%m-%d %H:%M:%f', 'now', '-{} seconds')",
            lease as f64 / 1000.0
        );
        self.run(&sql).map(drop)
    }

    fn read(&self, condition: &str, limit: i64) -> rusqlite::Result<Vec<Event>> {
        let sql = format!(
            "SELECT event_id, payload, headers, partition_key, attempts, created_at FROM {} AS t WHERE {condition}
             ORDER BY available_at, created_at LIMIT {limit}",
            self.table
        );
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map([], |row| {
            Ok(Event {
                id: row.get(0)?,
                payload: row.get(1)?,
                headers: row.get(2)?,
                key: row.get(3)?,
                attempts: row.get(4)?,
                created_at: row.get(5)?,
            })
        })?;
        rows.collect()
    }

    fn condition(&self) -> String {
        let state = if self.makes("revives the dead") {
            "status IN ('PENDING', 'DEAD')"
        } else {
            "status = 'PENDING'"
        };
        let mut condition = state.to_owned();
        if !self.makes("ignores when a row is due") {
            condition += &format!(" AND available_at <= {NOW}");
        }
        if self.ordered && !self.makes("knows no order") {
            condition += &format!(
                " AND NOT EXISTS (SELECT 1 FROM {} AS e WHERE e.ordering_key = t.ordering_key AND e.created_at < t.created_at
                   AND e.status IN ('PENDING', 'DELIVERING'))",
                self.table
            );
        }
        if self.makes("forgets what commits late") {
            condition += &format!(" AND created_at > '{}'", self.seen_up_to.borrow());
        }
        condition
    }

    fn claim(&self) -> rusqlite::Result<Vec<Event>> {
        let limit = if self.makes("takes more than it may") { 1_000 } else { self.batch };
        let is_careful = !self.makes("claims what others claim") && !self.makes("publishes before it claims");
        if is_careful {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
        }
        let events = self.read(&self.condition(), limit);
        let claimed = events.and_then(|events| {
            if self.makes("claims what others claim") {
                // Long enough for others to have read the same.
                std::thread::sleep(Duration::from_millis(30));
            }
            for event in &events {
                self.take(event)?;
            }
            Ok(events)
        });
        if is_careful {
            self.connection.execute_batch(if claimed.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        }
        claimed
    }

    fn take(&self, event: &Event) -> rusqlite::Result<()> {
        if self.makes("publishes before it claims") {
            self.send(event);
        }
        if self.makes("skips a state") {
            return Ok(());
        }
        let at = if self.makes("claims without a time") { "NULL" } else { NOW };
        let headers = if self.makes("changes headers") { ", headers = '{\"by\": \"relay\"}'" } else { "" };
        let sql = format!(
            "UPDATE {} SET status = 'DELIVERING', locked_by = ?1, locked_at = {at}{headers} WHERE event_id = ?2",
            self.table
        );
        self.connection.execute(&sql, params![self.token, event.id])?;
        let mut seen = self.seen_up_to.borrow_mut();
        if event.created_at > *seen {
            seen.clone_from(&event.created_at);
        }
        Ok(())
    }

    fn deliver(&self, event: &Event) -> rusqlite::Result<()> {
        if self.makes("publishes before it claims") {
            return self.record(event);
        }
        if self.makes("records before it sends") {
            self.record(event)?;
        }
        let mut acknowledged = self.send(event);
        if self.makes("sends twice") {
            acknowledged &= self.send(event);
        }
        match acknowledged {
            true => self.record(event),
            false => self.fail(event),
        }
    }

    fn send(&self, event: &Event) -> bool {
        let mut payload = String::from_utf8(event.payload.clone())
            .unwrap_or_else(|_| event.payload.iter().map(|byte| format!("{byte:02x}")).collect());
        if self.makes("changes the payload") {
            payload.make_ascii_uppercase();
        }
        let key =
            if self.makes("leaves the key away") { "" } else { event.key.as_deref().unwrap_or_default() };
        let id = if self.makes("leaves the id away") { "?" } else { &event.id };
        let line = format!("{id} {key} {} {payload}\n", event.headers).into_bytes();
        let (done, written) = mpsc::channel();
        self.pen.send((line, done)).is_ok() && written.recv_timeout(TIMEOUT).is_ok()
    }

    /// The claim under which this relay has the event.
    fn guard(&self, event: &Event) -> String {
        if self.makes("records without its claim") || self.makes("skips a state") {
            return format!("event_id = '{}'", event.id);
        }
        format!("event_id = '{}' AND status = 'DELIVERING' AND locked_by = '{}'", event.id, self.token)
    }

    fn record(&self, event: &Event) -> rusqlite::Result<()> {
        let unlocked =
            if self.makes("keeps its lease") { "" } else { ", locked_by = NULL, locked_at = NULL" };
        let guard = self.guard(event);
        self.run(&format!(
            "UPDATE TABLE SET status = 'DELIVERED', delivered_at = {NOW}{unlocked} WHERE {guard}"
        ))
        .map(drop)
    }

    fn fail(&self, event: &Event) -> rusqlite::Result<()> {
        let counted = i64::from(!self.makes("counts no failure"));
        let tried = event.attempts + 1;
        let state =
            if tried >= self.attempts_max && !self.makes("never gives up") { "DEAD" } else { "PENDING" };
        let reason = if self.makes("gives no reason") { "NULL" } else { "'nobody acknowledged it'" };
        let pause_ms =
            if self.makes("tries again at once") { 0 } else { self.backoff_ms << event.attempts.min(8) };
        let sql = format!(
            "UPDATE TABLE SET status = '{state}', attempts = attempts + {counted}, last_error = {reason}, locked_by = NULL, locked_at = NULL,
                 available_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '+{} seconds') WHERE {}",
            pause_ms as f64 / 1000.0,
            self.guard(event)
        );
        self.run(&sql).map(drop)
    }
}
