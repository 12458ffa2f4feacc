//! What a lease on a table holds: which rows, under which tokens, and where to read on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::lane::LaneSpec;
use posthaste_core::store::{Lease, Outcome, Owner, Settled, Standing, Ticket, Unsent};
use posthaste_core::target::DeliverKind;
use posthaste_core::time::{Clock, SystemClock, Timestamp, micros};
use posthaste_core::{Error, Result};
use tokio::time::Instant;

use super::{counted_on, renew_after, sweep_every};

/// How far behind the last row a claim begins to look: transactions commit in another order than they took their time.
const PLACE_MARGIN: Duration = Duration::from_millis(200);
/// What committed later than that is found by a claim from the beginning, which comes at least so long after the last one,
const WHOLE_EVERY_MIN: Duration = Duration::from_millis(50);
/// and takes at most this share of the time,
const WHOLE_SHARE: u32 = 20;
/// unless what committed late would wait for longer than this: a server that was busy for a moment is not asked rarely ever after.
const WHOLE_EVERY_MAX: Duration = Duration::from_secs(5);
/// However long it takes, it takes no more than half of the time.
const WHOLE_SHARE_MIN: u32 = 2;
/// A claim from the beginning that took no longer may follow any empty one.
const WHOLE_IS_CHEAP: Duration = Duration::from_millis(20);

/// Rows that the table would not have claimed, or taken back, are passed over for so long, and then tried again: their owner may have
/// mended it.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// So many that it would not have claimed are remembered: they are values of every claim.
const PASSED_MAX: usize = 1_000;

/// A token of a claim.
pub(in crate::store) type Token = Arc<str>;

/// What one lease on a table holds.
pub(in crate::store) struct Cursor {
    pub(in crate::store) lane: LaneSpec,
    pub(in crate::store) owner: Owner,
    pub(in crate::store) epoch: i64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    rows: HashMap<Ticket, Row>,
    /// Under which ticket a row is held now.
    tickets: HashMap<Arc<str>, Ticket>,
    claims: HashMap<Token, Claim>,
    /// Claims whose answer never came: they may hold rows that nobody was told of.
    unsure: Vec<Token>,
    last_ticket: i64,
    place: Option<Timestamp>,
    whole_at: Option<Instant>,
    whole_took: Duration,
    sweep_at: Option<Instant>,
    /// Rows that the table would not have claimed, and since when that is known. Those that are to be tried again stay, so that it is
    /// not told anew.
    passed: HashMap<String, Instant>,
    /// How many of the oldest leases that ended the table would not have taken back,
    refused: u32,
    /// and since when that is known of all of them.
    refused_since: Option<Instant>,
    /// Where the relay says what it never sent,
    unsent: Option<Arc<Unsent>>,
    /// and what it said.
    never_sent: HashSet<Ticket>,
    /// A claim was answered before it had looked at everything.
    has_missed: bool,
    is_over: bool,
}

struct Row {
    id: Arc<str>,
    token: Token,
    slow: bool,
    /// How often it failed before; if it did, later rows of its key may wait for it.
    attempts: u32,
}

struct Claim {
    rows: usize,
    leased: Instant,
    /// Whether the relay was told of its rows.
    is_handed_out: bool,
}

/// How a claim should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Look {
    /// At everything that is pending.
    Whole,
    /// At what is due since this moment.
    Since(Timestamp),
}

/// Outcomes by what is to be recorded.
#[derive(Default, Debug)]
pub(in crate::store) struct Sorted {
    pub(in crate::store) tokens: Vec<String>,
    pub(in crate::store) delivered: Vec<String>,
    pub(in crate::store) retry: Failures,
    pub(in crate::store) dead: Deaths,
    pub(in crate::store) released: Vec<String>,
    /// What is old enough to be renewed.
    pub(in crate::store) renewed: Vec<String>,
    /// Outcomes of rows that this lease does not hold any more.
    pub(in crate::store) unknown: u64,
    /// Nothing was handed in: it is all about the lease.
    pub(in crate::store) is_renewal: bool,
    settled: Vec<Ticket>,
    /// The claims whose rows are renewed.
    renewing: Vec<Token>,
    began: Option<Instant>,
}

#[derive(Default, Debug)]
pub(in crate::store) struct Failures {
    pub(in crate::store) ids: Vec<String>,
    pub(in crate::store) after_ms: Vec<i64>,
    /// None: it was not to be taken yet, which is no attempt.
    pub(in crate::store) errors: Vec<Option<String>>,
}

impl Failures {
    fn push(&mut self, id: String, after: Duration, error: Option<String>) {
        self.ids.push(id);
        // Never at once: whoever failed is due in the future.
        self.after_ms.push((micros(after) / 1_000).max(1));
        self.errors.push(error);
    }
}

#[derive(Default, Debug)]
pub(in crate::store) struct Deaths {
    pub(in crate::store) ids: Vec<String>,
    pub(in crate::store) errors: Vec<String>,
    pub(in crate::store) spent: Vec<bool>,
}

impl Sorted {
    /// Rows of one claim that are no events, with the reason of each.
    pub(in crate::store) fn set_aside(token: &Token, bad: &[(String, String)]) -> Self {
        let mut sorted = Self { tokens: vec![token.to_string()], ..Self::default() };
        for (id, reason) in bad {
            sorted.dead.ids.push(id.clone());
            sorted.dead.errors.push(said(reason));
            sorted.dead.spent.push(false);
        }
        sorted
    }

    /// The same, and no lease is renewed by it.
    pub(in crate::store) fn without_renewals(mut self) -> Self {
        self.renewed.clear();
        self.renewing.clear();
        self
    }

    /// The same, and nothing but the leases of these rows is renewed by it.
    pub(in crate::store) fn renewals(&self, renewed: &[String]) -> Self {
        Self { tokens: self.tokens.clone(), renewed: renewed.to_vec(), ..Self::default() }
    }

    /// How many rows should be recorded.
    pub(in crate::store) fn outcomes(&self) -> u64 {
        (self.delivered.len() + self.retry.ids.len() + self.dead.ids.len() + self.released.len()) as u64
    }

    /// How many rows somebody else has, when so many were recorded.
    pub(in crate::store) fn lost(&self, recorded: u64) -> u64 {
        self.outcomes() + self.unknown - recorded.min(self.outcomes())
    }

    /// How many statements that takes.
    #[cfg_attr(
        all(not(feature = "postgres"), not(feature = "mysql"), not(test)),
        expect(dead_code, reason = "SQLite's writer has one transaction for all")
    )]
    pub(in crate::store) fn statements(&self) -> usize {
        let all = [&self.delivered, &self.retry.ids, &self.dead.ids, &self.released, &self.renewed];
        all.into_iter().filter(|ids| !ids.is_empty()).count()
    }

    /// How the lease stands when so many rows were recorded and so many renewed.
    pub(in crate::store) fn standing(&self, recorded: u64, renewed: u64) -> Standing {
        let nothing_recorded = self.outcomes() + self.unknown > 0 && recorded == 0;
        let nothing_renewed = self.is_renewal && !self.renewed.is_empty() && renewed == 0;
        if nothing_recorded || nothing_renewed { Standing::Lost } else { Standing::Held }
    }
}

/// What is left in the hands of a lease that ends.
#[derive(Clone, Default, Debug)]
pub(in crate::store) struct Left {
    /// Sent and not answered.
    pub(in crate::store) ids: Vec<String>,
    /// Never sent.
    pub(in crate::store) unsent: Vec<String>,
    pub(in crate::store) tokens: Vec<String>,
    /// Claims whose answer never came.
    pub(in crate::store) unsure: Vec<String>,
    /// After so many attempts a row is dead.
    pub(in crate::store) budget: u32,
}

impl Left {
    /// The same in two parts; `None` if there is only one row, or one claim.
    pub(in crate::store) fn halves(&self) -> Option<(Self, Self)> {
        let none = Self { tokens: self.tokens.clone(), budget: self.budget, ..Self::default() };
        let mut halves = (none.clone(), none);
        let all = [&self.unsure, &self.unsent, &self.ids];
        let half = all.iter().map(|list| list.len()).sum::<usize>() / 2;
        let mut first = half;
        for (which, list) in all.into_iter().enumerate() {
            let (here, there) = list.split_at(first.min(list.len()));
            first -= here.len();
            for (half, part) in [(&mut halves.0, here), (&mut halves.1, there)] {
                [&mut half.unsure, &mut half.unsent, &mut half.ids][which].extend_from_slice(part);
            }
        }
        (half > 0).then_some(halves)
    }

    /// What it is about: the id of a row, or the token of a claim.
    pub(in crate::store) fn first(&self) -> Option<&str> {
        self.ids.iter().chain(&self.unsent).chain(&self.unsure).next().map(String::as_str)
    }
}

impl Cursor {
    pub(in crate::store) fn new(lane: LaneSpec, owner: Owner) -> Self {
        Self { lane, owner, epoch: next_epoch(), held: Mutex::default() }
    }

    /// The lease that holds this cursor.
    pub(in crate::store) fn lease(self: &Arc<Self>) -> Lease {
        let length = counted_on(self.lane.lease);
        let lease = Lease::new(self.lane.name.clone(), self.epoch, length, Arc::clone(self));
        self.held().unsent = Some(lease.unsent());
        lease
    }

    pub(in crate::store) fn of(lease: &Lease) -> Result<Arc<Self>> {
        lease
            .cursor::<Arc<Self>>()
            .cloned()
            .ok_or_else(|| Error::config("the lease is of another store; acquire it here"))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was given up, or somebody acquired anew for the same relay.
    pub(in crate::store) fn is_over(&self) -> bool {
        self.held().is_over
    }

    /// Ends it.
    pub(in crate::store) fn end(&self) {
        self.held().is_over = true;
    }

    /// How the next claim should look.
    pub(in crate::store) fn look(&self) -> Look {
        let held = self.held();
        let is_whole_due = held.whole_at.is_none_or(|at| Instant::now() >= at);
        match held.place {
            Some(place) if !is_whole_due => Look::Since(place.before(PLACE_MARGIN)),
            _ => Look::Whole,
        }
    }

    /// Whether an empty claim of this kind must be followed by one from the beginning: always for whoever leaves when nothing is
    /// due any more.
    pub(in crate::store) fn should_look_again(&self, look: Look) -> bool {
        look != Look::Whole && (!self.owner.stays || self.held().whole_took <= WHOLE_IS_CHEAP)
    }

    /// The next claim looks at everything: something that is due lies before the place.
    pub(in crate::store) fn look_whole(&self) {
        self.held().whole_at = None;
    }

    /// A claim with this token is on its way.
    pub(in crate::store) fn begin_claim(&self, token: &Token) {
        self.held().unsure.push(Arc::clone(token));
    }

    /// The tokens under which this lease holds rows, and the ids of those that it has waited for too long.
    pub(in crate::store) fn mine(&self) -> (Vec<String>, Vec<String>) {
        let held = self.held();
        let slow = held.rows.values().filter(|row| row.slow).map(|row| row.id.to_string());
        (held.claims.keys().map(ToString::to_string).collect(), slow.collect())
    }

    /// The claim was answered with rows of these ids and attempts; answers their tickets.
    pub(in crate::store) fn end_claim<'a>(
        &self,
        token: &Token,
        began: Instant,
        look: Look,
        rows: impl ExactSizeIterator<Item = (&'a str, i64)>,
        latest: Option<Timestamp>,
    ) -> Vec<Ticket> {
        let mut held = self.held();
        held.unsure.retain(|unsure| unsure != token);
        // One that missed its look has not looked from the beginning either.
        if look == Look::Whole && !held.has_missed {
            held.whole_took = began.elapsed();
            held.whole_at = Some(Instant::now() + whole_after(held.whole_took));
        }
        held.place = held.place.max(latest);
        if rows.len() > 0 {
            let claim = Claim { rows: 0, leased: began, is_handed_out: false };
            held.claims.insert(Arc::clone(token), claim);
        }
        rows.map(|(id, attempts)| held.take(id, attempts, token)).collect()
    }

    /// The table would not have the claim with this token: it holds nothing.
    pub(in crate::store) fn refuse_claim(&self, token: &Token) {
        self.held().unsure.retain(|unsure| unsure != token);
    }

    /// The ids of the rows that a claim passes over: the table would not have them claimed.
    pub(in crate::store) fn passed(&self) -> Vec<String> {
        let held = self.held();
        held.passed.iter().filter(|(_, since)| self.is_passed(since)).map(|(id, _)| id.clone()).collect()
    }

    /// Whether a row that was refused then is still passed over: to the end for whoever leaves when nothing is due, or it might never.
    fn is_passed(&self, since: &Instant) -> bool {
        !self.owner.stays || since.elapsed() < REFUSED_AGAIN_AFTER
    }

    /// Claims pass over this row from now on; answers whether that is news, and nothing if they cannot: there are too many of them, or it
    /// was passed over already and comes all the same.
    pub(in crate::store) fn pass_over(&self, id: &str) -> Option<bool> {
        let passed = &mut self.held().passed;
        let is_new = match passed.get(id) {
            Some(since) if self.is_passed(since) => return None,
            known => known.is_none(),
        };
        if is_new && passed.len() >= PASSED_MAX {
            passed.retain(|_, since| self.is_passed(since));
        }
        if is_new && passed.len() >= PASSED_MAX {
            return None;
        }
        passed.insert(id.to_owned(), Instant::now());
        Some(is_new)
    }

    /// The relay is told of the rows of this claim: from now on they may be sent.
    pub(in crate::store) fn hand_out(&self, token: &Token) {
        if let Some(claim) = self.held().claims.get_mut(token) {
            claim.is_handed_out = true;
        }
    }

    /// Called in a claim that is answered before it has looked at everything: somebody else's took too long, or too much was refused.
    pub(in crate::store) fn miss(&self) {
        self.held().has_missed = true;
    }

    /// Whether a claim has missed its look since the last call.
    pub(in crate::store) fn has_missed(&self) -> bool {
        std::mem::take(&mut self.held().has_missed)
    }

    /// This row is settled already.
    pub(in crate::store) fn let_go(&self, ticket: Ticket) {
        self.held().let_go(ticket);
    }

    /// Sorts outcomes by what is to be recorded.
    pub(in crate::store) fn sort(&self, outcomes: &[Settled]) -> Sorted {
        let mut held = self.held();
        let mut sorted =
            Sorted { is_renewal: outcomes.is_empty(), began: Some(Instant::now()), ..Sorted::default() };
        for Settled { ticket, outcome, .. } in outcomes {
            held.sort(*ticket, outcome, &mut sorted);
        }
        let old = renew_after(self.lane.lease);
        // Decided once: by the time that this is recorded, others may have become old whose rows it did not renew.
        let is_old = |claim: &Claim| sorted.is_renewal || claim.leased.elapsed() >= old;
        let renewing = held.claims.iter().filter(|(_, claim)| is_old(claim)).map(|(token, _)| token);
        let renewing: HashSet<_> = renewing.collect();
        let done: HashSet<_> = sorted.settled.iter().collect();
        let is_renewed =
            |(ticket, row): &(&Ticket, &Row)| renewing.contains(&row.token) && !done.contains(ticket);
        sorted.renewed = held.rows.iter().filter(is_renewed).map(|(_, row)| row.id.to_string()).collect();
        sorted.renewing = renewing.into_iter().map(Arc::clone).collect();
        sorted.tokens = held.claims.keys().map(ToString::to_string).collect();
        sorted
    }

    /// What was sorted is recorded.
    pub(in crate::store) fn recorded(&self, sorted: &Sorted) {
        let mut held = self.held();
        let mut frees_others = !sorted.released.is_empty();
        for ticket in &sorted.settled {
            frees_others |= held.let_go(*ticket);
        }
        if let Some(began) = sorted.began {
            for token in &sorted.renewing {
                if let Some(claim) = held.claims.get_mut(token) {
                    claim.leased = began;
                }
            }
        }
        if frees_others {
            // What is due by that lies before the place.
            held.whole_at = None;
        }
    }

    /// How often the row of this ticket failed before.
    pub(in crate::store) fn attempts(&self, ticket: Ticket) -> u32 {
        self.held().rows.get(&ticket).map_or(0, |row| row.attempts)
    }

    /// Everything that is still in its hands, and after how many attempts a row is dead.
    pub(in crate::store) fn left(&self, budget: u32) -> Left {
        let mut held = self.held();
        let said: Vec<_> = held.unsent.iter().flat_map(|unsent| unsent.take()).collect();
        // It is said once, and handing back may take more than one try.
        held.never_sent.extend(said);
        let is_unsent = |(ticket, row): &(&Ticket, &Row)| {
            held.never_sent.contains(*ticket)
                || held.claims.get(&row.token).is_some_and(|claim| !claim.is_handed_out)
        };
        let (unsent, sent): (Vec<_>, Vec<_>) = held.rows.iter().partition(is_unsent);
        let ids = |rows: Vec<(&Ticket, &Row)>| rows.iter().map(|(_, row)| row.id.to_string()).collect();
        Left {
            ids: ids(sent),
            unsent: ids(unsent),
            tokens: held.claims.keys().map(ToString::to_string).collect(),
            unsure: held.unsure.iter().map(ToString::to_string).collect(),
            budget,
        }
    }

    /// How many of the oldest leases that ended need not be tried now: the table would not have them taken back.
    pub(in crate::store) fn refused(&self) -> u32 {
        let mut held = self.held();
        if held.refused_since.take_if(|since| since.elapsed() >= REFUSED_AGAIN_AFTER).is_some() {
            held.refused = 0;
        }
        held.refused
    }

    /// So many of the oldest are refused, of all that there are or as far as a sweep came. One that did not come to the end goes on there
    /// next time, however long that takes: begun anew every minute, it would never see what is behind many of them.
    pub(in crate::store) fn note_refused(&self, rows: u32, is_all: bool) {
        let mut held = self.held();
        held.refused = rows;
        let since = held.refused_since.filter(|_| rows > 0);
        held.refused_since = (is_all && rows > 0).then(|| since.unwrap_or_else(Instant::now));
    }

    /// Nothing is in its hands any more.
    pub(in crate::store) fn forget(&self) {
        let mut held = self.held();
        held.rows.clear();
        held.tickets.clear();
        held.claims.clear();
        held.unsure.clear();
        held.never_sent.clear();
    }

    /// Whether leases that have ended should be looked for now; whoever hears so does it.
    pub(in crate::store) fn sweep_is_due(&self) -> bool {
        let mut held = self.held();
        let now = Instant::now();
        let is_due = held.sweep_at.is_none_or(|at| now >= at);
        if is_due {
            held.sweep_at = Some(now + sweep_every(self.lane.lease));
        }
        is_due
    }
}

/// How long after a claim from the beginning that took so long the next one comes.
fn whole_after(took: Duration) -> Duration {
    let most = WHOLE_EVERY_MAX.max(took * WHOLE_SHARE_MIN);
    (took * WHOLE_SHARE).clamp(WHOLE_EVERY_MIN, most)
}

impl Held {
    /// A row is held under this token. If this lease held it before, it lost it without noticing: the old ticket is void.
    fn take(&mut self, id: &str, attempts: i64, token: &Token) -> Ticket {
        self.last_ticket += 1;
        let (ticket, id): (_, Arc<str>) = (Ticket(self.last_ticket), id.into());
        if let Some(old) = self.tickets.insert(Arc::clone(&id), ticket) {
            self.drop_row(old);
        }
        let attempts = attempts.clamp(0, i64::from(u32::MAX)) as u32;
        self.rows.insert(ticket, Row { id, token: Arc::clone(token), slow: false, attempts });
        if let Some(claim) = self.claims.get_mut(token) {
            claim.rows += 1;
        }
        ticket
    }

    /// Forgets a row; answers whether others may have waited for it.
    fn let_go(&mut self, ticket: Ticket) -> bool {
        let Some(row) = self.drop_row(ticket) else { return false };
        self.tickets.remove(&row.id);
        row.attempts > 0 || row.slow
    }

    fn drop_row(&mut self, ticket: Ticket) -> Option<Row> {
        let row = self.rows.remove(&ticket)?;
        if let Some(claim) = self.claims.get_mut(&row.token) {
            claim.rows -= 1;
            if claim.rows == 0 {
                self.claims.remove(&row.token);
            }
        }
        Some(row)
    }

    fn sort(&mut self, ticket: Ticket, outcome: &Outcome, sorted: &mut Sorted) {
        let Some(row) = self.rows.get_mut(&ticket) else {
            sorted.unknown += 1;
            return;
        };
        let id = row.id.to_string();
        match outcome {
            Outcome::Slow => {
                row.slow = true;
                return;
            }
            Outcome::Delivered => sorted.delivered.push(id),
            Outcome::Retry { after, error } => sorted.retry.push(id, *after, Some(said(&error.to_string()))),
            // Said with an error it would count as an attempt.
            Outcome::Later { after, .. } => sorted.retry.push(id, *after, None),
            Outcome::Dead { error } => {
                sorted.dead.ids.push(id);
                sorted.dead.errors.push(said(&error.to_string()));
                sorted.dead.spent.push(error.kind == DeliverKind::Failed);
            }
            _ => sorted.released.push(id),
        }
        sorted.settled.push(ticket);
    }
}

/// An error as it is stored: without secrets, and cut.
pub(in crate::store) fn said(error: &str) -> String {
    posthaste_core::redact::clean(error)
}

/// Every lease of this process has a higher number than those before it; also than those of a process that ended.
fn next_epoch() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = SystemClock.now().as_micros();
    let next = |last: i64| Some(now.max(last + 1));
    match LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
        Ok(last) | Err(last) => now.max(last + 1),
    }
}

#[cfg(test)]
mod tests;
