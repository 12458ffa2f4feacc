//! One scene: a table of its own, relays on it, and what is found out.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use posthaste::table::{Column, Profile};
use posthaste_terminal::exit::Code;
use tokio::time::{Instant, sleep};

use super::Stop;
use super::findings::Findings;
use super::ground::Ground;
use super::moves::{self, State};
use super::relay::{Place, Running, Settings, Subject, configured};
use super::table::{Row, Table};

/// How often a fact is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(15);
/// What a busy machine needs beyond what everything takes by itself.
const SLACK: Duration = Duration::from_secs(15);

/// How many times as long a lease lasts where nobody waits for its end.
const LEASES_IN_PEACE: u32 = 10;

/// Everything that scenes have in common.
pub(super) struct Kit {
    pub(super) ground: Box<dyn Ground>,
    pub(super) store: String,
    pub(super) profile: Profile,
    pub(super) subject: Subject,
    /// This program, for operators' verbs.
    pub(super) program: PathBuf,
    /// Which environment variables are settings of this program.
    pub(super) is_setting: fn(&str) -> bool,
    pub(super) lease: Duration,
    pub(super) folder: PathBuf,
    /// Whether what the relay publishes can be seen.
    pub(super) sees: bool,
    /// Tables that are not removed yet.
    pub(super) made: Mutex<Vec<Profile>>,
}

/// A scene as it is listed.
pub(super) struct SceneOf {
    pub(super) name: &'static str,
    /// The requirements that it is about.
    pub(super) about: &'static [&'static str],
    /// Whether it waits for leases to end. Where it does not, none ends by itself on a busy machine: they last longer.
    pub(super) is_leasing: bool,
    /// Whether its table has a column for the order.
    pub(super) is_ordered: bool,
    /// Whether an operator is at work in it.
    pub(super) is_operated: bool,
    pub(super) run: for<'a, 'b> fn(&'a mut Scene<'b>) -> LocalBoxFuture<'a, Result<(), Stop>>,
}

/// A scene that is played.
pub(super) struct Scene<'a> {
    pub(super) kit: &'a Kit,
    pub(super) table: Table<'a>,
    pub(super) findings: Findings,
    /// How long a claim of its relays lasts.
    lease: Duration,
}

impl Kit {
    pub(super) fn is_own(&self) -> bool {
        matches!(self.subject, Subject::Own(_))
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Vec<Profile>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plays a scene on a table of its own and judges every move that was made in it.
    pub(super) async fn play(&self, of: &SceneOf) -> Result<Findings, Stop> {
        let table = Table::make(&*self.ground, &self.profile, of.is_ordered).await?;
        self.made().push(table.profile.clone());
        let lease = if of.is_leasing { self.lease } else { self.lease * LEASES_IN_PEACE };
        let mut scene = Scene { kit: self, table, findings: Findings::default(), lease };
        let played = (of.run)(&mut scene).await;
        let moved = scene.table.moves().await?;
        let says_why = scene.table.has(Column::LastError);
        moves::judge(&moved, of.is_operated, says_why, millis(lease), &mut scene.findings);
        if let Err(Stop(why)) = played {
            // What was to be found out after that is not known to hold.
            let is_complete = !of.about.iter().any(|id| scene.findings.lacks(id));
            for requirement in of.about {
                if is_complete || scene.findings.lacks(requirement) {
                    scene.findings.broken(requirement, why.clone());
                }
            }
        }
        scene.table.remove().await?;
        self.made().retain(|made| *made != scene.table.profile);
        Ok(scene.findings)
    }

    /// After an interruption nothing stays behind.
    pub(super) async fn remove_what_is_left(&self) {
        let left = std::mem::take(&mut *self.made());
        for profile in left {
            if let Err(Stop(why)) = Table::of(&*self.ground, profile.clone()).remove().await {
                tracing::warn!(table = %profile.table, why, "a table of the kit could not be removed");
            }
        }
    }
}

impl Scene<'_> {
    fn place(&self) -> Place<'_> {
        let Kit { store, folder, is_setting, .. } = self.kit;
        Place { store, profile: &self.table.profile, lease: self.lease, folder, is_setting: *is_setting }
    }

    /// Starts a relay.
    pub(super) fn relay(&self, settings: Settings) -> Result<Running, Stop> {
        self.kit.subject.start(&self.place(), settings)
    }

    /// A relay that nobody listens to yet: what it publishes is not acknowledged.
    pub(super) fn unheard_relay(&self) -> Result<Running, Stop> {
        self.relay(Settings { is_heard: false, ..Settings::default() })
    }

    /// An operator's verb of this program on the table; answers what it said.
    pub(super) async fn verb(&self, arguments: &[&str]) -> Result<Said, Stop> {
        let said = self.verb_or_nothing(arguments).await?;
        said.ok_or_else(|| Stop(format!("posthaste {} found nothing", arguments.join(" "))))
    }

    /// The same where it is an answer that nothing matches.
    pub(super) async fn verb_or_nothing(&self, arguments: &[&str]) -> Result<Option<Said>, Stop> {
        let mut command: Command = configured(&self.kit.program, &self.place(), Settings::default())?;
        command.args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output =
            output.map_err(|error| error.to_string()).and_then(|done| done.map_err(|e| e.to_string()));
        let output = output.map_err(|error| Stop(format!("run {arguments:?}: {error}")))?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let said = Said { stdout: text(&output.stdout), stderr: text(&output.stderr) };
        match output.status.code() {
            Some(0) => Ok(Some(said)),
            Some(code) if code == Code::Nothing as i32 => Ok(None),
            _ => Err(Stop(format!("posthaste {} failed: {}", arguments.join(" "), said.stderr.trim()))),
        }
    }

    /// How long anything may take that waits for a lease.
    pub(super) fn patience(&self) -> Duration {
        self.kit.lease * 2 + SLACK
    }

    /// Waits until this holds.
    pub(super) async fn until(
        &self,
        relays: &mut [Running],
        what: &str,
        mut holds: impl AsyncFnMut(&mut [Running]) -> Result<bool, Stop>,
    ) -> Result<(), Stop> {
        let end = Instant::now() + self.patience();
        while !holds(relays).await? {
            if let Some(why) = relays.iter_mut().find_map(Running::ended) {
                return Err(Stop(format!("{what}: {why}")));
            }
            if Instant::now() > end {
                let said = relays.first().map(Running::said).unwrap_or_default();
                return Err(Stop(format!(
                    "not within {:?}: {what}; the relay said: {said}",
                    self.patience()
                )));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until all of these rows are in this state.
    pub(super) async fn until_are(
        &self,
        relays: &mut [Running],
        rows: &[Row],
        state: State,
    ) -> Result<(), Stop> {
        let condition = format!("{} AND {}", self.table.among(rows), self.table.is(state));
        let what = format!("{} rows are {state:?}", rows.len());
        self.until(relays, &what, async |_| Ok(self.table.count(&condition).await? == rows.len() as i64))
            .await
    }

    /// Waits until all of these rows are delivered and were published.
    pub(super) async fn until_delivered(&self, relays: &mut [Running], rows: &[Row]) -> Result<(), Stop> {
        self.until_are(relays, rows, State::Delivered).await?;
        if !self.kit.sees {
            return Ok(());
        }
        self.until(relays, "every delivered row was published", async |relays| {
            Ok(rows.iter().all(|row| relays.iter().any(|relay| relay.times(&row.id) > 0)))
        })
        .await
    }

    /// Lets a relay work until a row that is put in now is delivered: whatever it would do by itself it has done then.
    pub(super) async fn let_work(&self, relays: &mut [Running]) -> Result<(), Stop> {
        let marker = [Row::new()];
        self.table.insert(&marker).await?;
        self.until_delivered(relays, &marker).await
    }
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What a verb said.
pub(super) struct Said {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// How often all these relays together have published an event.
pub(super) fn times(relays: &[Running], row: &Row) -> usize {
    relays.iter().map(|relay| relay.times(&row.id)).sum()
}
