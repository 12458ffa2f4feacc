//! A few of the events that a command would change: beside their number, so that whoever gives it sees whether they are the right ones.

use std::collections::HashSet;

use posthaste::Result;
use posthaste::admin::{Admin, Command, EventState, Filter, Page, Record};

/// How many are shown.
const EVENTS: u32 = 5;
/// How many pages without an event are read on.
const EMPTY_PAGES_MAX: usize = 10;

/// The newest events that this command would change; none for one that is not about events. In an outbox table everything that waits
/// can be changed, in a log only what is parked.
///
/// # Errors
/// What the store, or the broker, says.
pub(crate) async fn sample(
    admin: &dyn Admin,
    filter: &Filter,
    command: &Command,
    is_table: bool,
) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    let sampled = command.kind().sampled;
    for state in if is_table { sampled.in_table } else { sampled.in_log } {
        let mut asked = filter.clone();
        asked.state = *state;
        found.extend(newest(admin, &asked).await?);
    }
    found.retain(|record| is_left(command, record));
    found.sort_by_key(|record| std::cmp::Reverse(record.seq));
    // An event may be in two of the states meanwhile; rows of one transaction have one time, and with it one place.
    let mut seen = HashSet::new();
    found.retain(|record| seen.insert((record.envelope.source.clone(), record.envelope.id.clone())));
    found.truncate(EVENTS as usize);
    Ok(found)
}

/// The newest events that match. Reads on while a page has none, but not for ever: it is only a sample.
async fn newest(admin: &dyn Admin, filter: &Filter) -> Result<Vec<Record>> {
    let mut page = Page::first(EVENTS);
    for _ in 0..EMPTY_PAGES_MAX {
        let found = admin.find(filter, page.clone()).await?;
        if !found.records.is_empty() || found.next.is_none() {
            return Ok(found.records);
        }
        page.after = found.next;
    }
    Ok(Vec::new())
}

/// Whether there is anything left to do: what was erased is erased, and what a relay has is not put off.
fn is_left(command: &Command, record: &Record) -> bool {
    match command {
        Command::Erase { .. } => record.payload_bytes.is_some(),
        Command::Schedule { .. } => record.lanes.iter().any(|view| view.state != EventState::Delivering),
        _ => true,
    }
}
