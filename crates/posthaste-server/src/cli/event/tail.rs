//! `posthaste event tail`: events as they come, until a signal.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::admin::Filter;
use posthaste::time::Timestamp;

use super::super::context::{Access, Context};
use super::super::filter::FilterArgs;
use super::super::output;
use super::super::serve::stopped;
use super::list::{PageArgs, fetch, row};
use crate::exit::Failure;
use crate::http::wire::{EventDocument, EventPage};
use crate::shutdown::{Shutdown, until_signalled};

const PAUSE: Duration = Duration::from_millis(300);
const PAGE: u32 = 200;
/// How many of the newest events are looked through for such that committed late, and after how many pauses each time.
const LATE: u32 = 1_000;
const LATE_EVERY: u32 = 5;
/// How far the times of neighbours in the log may go back: clocks are set.
const SLACK: Duration = Duration::from_secs(60);

/// What `event tail` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Begin with so many events that are there already
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    lines: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let access = context.access(false).await?;
    stopped(until_signalled(|shutdown| follow(args, &access, context.json(), shutdown)).await)
}

async fn follow(args: &Args, access: &Access, json: bool, shutdown: Shutdown) -> Result<(), Failure> {
    let mut newest = newest(access).await?;
    let mut seen = Seen::default();
    let filter = args.filter.filter();
    let mut events = seen.unseen(late(access, filter).await?);
    events.truncate(args.lines as usize);
    seen.last = seen.last.max(newest.as_ref().map_or(0, |event| event.seq));
    let mut looks = 0_u32;
    loop {
        for event in events.drain(..).rev() {
            print(&event, json)?;
        }
        if tokio::time::timeout(PAUSE, shutdown.begun()).await.is_ok() {
            return Ok(());
        }
        let before = newest;
        newest = self::newest(access).await?;
        looks = looks.wrapping_add(1);
        let is_new = |event: &&EventDocument| {
            event.seq >= seen.last && before.as_ref().is_none_or(|before| place(before) != place(event))
        };
        if let Some(new) = newest.as_ref().filter(is_new) {
            let came = since(access, filter, before.as_ref(), seen.last).await?;
            events = seen.unseen(EventPage { events: came, next: None });
            seen.last = seen.last.max(new.seq);
        }
        if looks.is_multiple_of(LATE_EVERY) {
            events.extend(seen.unseen(late(access, filter).await?));
        }
    }
}

/// What tells an event from all others. In an outbox table the number is a time, which all rows of a transaction share.
type Place = (i64, String, String);

fn place(event: &EventDocument) -> Place {
    (event.seq, event.id.clone(), event.source.clone())
}

/// Which events were shown. A number says little: a transaction that stays open commits behind later ones.
#[derive(Default)]
struct Seen {
    /// The highest number.
    last: i64,
    /// What is not above this is not known any more, and not shown.
    floor: i64,
    /// What was shown above that.
    above: BTreeSet<Place>,
}

impl Seen {
    /// Those of a page that were not seen before, which are seen from here on.
    fn unseen(&mut self, mut page: EventPage) -> Vec<EventDocument> {
        let lowest = page.events.iter().map(|event| event.seq).min().filter(|_| page.next.is_some());
        page.events.retain(|event| event.seq > self.floor && self.above.insert(place(event)));
        if let Some(lowest) = lowest {
            // There is more below, and at this very number if that is a time, of which nobody knows whether it was seen.
            self.floor = self.floor.max(lowest);
            self.above = self.above.split_off(&(self.floor + 1, String::new(), String::new()));
        }
        self.last = page.events.iter().map(|event| event.seq).fold(self.last, i64::max);
        page.events
    }
}

/// The newest events that the filter means, so that those are found which committed late.
async fn late(access: &Access, filter: &Filter) -> Result<EventPage, Failure> {
    fetch(access, filter, &PageArgs { limit: LATE, after: None }).await
}

/// The newest event of all: whether there is anything new is cheap to know.
async fn newest(access: &Access) -> Result<Option<EventDocument>, Failure> {
    let page = PageArgs { limit: 1, after: None };
    Ok(fetch(access, &Filter::default(), &page).await?.events.pop())
}

/// What came at or after this place in the log, the newest first. The time of the event before it bounds the search, which would
/// otherwise go through the whole log when the filter matches little.
async fn since(
    access: &Access,
    filter: &Filter,
    before: Option<&EventDocument>,
    seen: i64,
) -> Result<Vec<EventDocument>, Failure> {
    let mut filter = filter.clone();
    let bound = before.and_then(|event| event.created_at.parse::<Timestamp>().ok());
    filter.since = filter.since.max(bound.map(|time| time.before(SLACK)));
    let mut events = Vec::new();
    let mut page = PageArgs { limit: PAGE, after: None };
    loop {
        let answer = fetch(access, &filter, &page).await?;
        let count = answer.events.len();
        let fresh: Vec<_> = answer.events.into_iter().take_while(|event| event.seq >= seen).collect();
        let reached = fresh.len() < count;
        events.extend(fresh);
        match answer.next {
            Some(next) if !reached => page.after = Some(next),
            _ => return Ok(events),
        }
    }
}

fn print(event: &EventDocument, json: bool) -> Result<(), Failure> {
    if json {
        return output::json_line(event);
    }
    let cells: Vec<_> = row(event).iter().map(|cell| output::plain(cell)).collect();
    output::line(cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use posthaste::admin::Record;
    use posthaste::envelope::Envelope;

    use super::*;

    fn page(events: &[(i64, &str)], next: bool) -> EventPage {
        let document = |(seq, id): &(i64, &str)| {
            let mut envelope = Envelope::new("x", "");
            envelope.id = (*id).to_owned();
            EventDocument::of(&Record::new(*seq, envelope, None, Timestamp::from_micros(*seq)))
        };
        EventPage { events: events.iter().map(document).collect(), next: next.then(|| "on".to_owned()) }
    }

    fn shown(seen: &mut Seen, events: &[(i64, &str)], next: bool) -> Vec<String> {
        seen.unseen(page(events, next)).into_iter().map(|event| event.id).collect()
    }

    #[test]
    fn rows_of_one_time_are_all_shown_and_none_twice() {
        let mut seen = Seen::default();
        assert_eq!(shown(&mut seen, &[(7, "b"), (7, "a")], false), ["b", "a"]);
        assert_eq!(shown(&mut seen, &[(7, "c"), (7, "b"), (7, "a")], true), ["c"]);
        assert_eq!(
            shown(&mut seen, &[(9, "d"), (7, "c"), (7, "z"), (3, "old")], false),
            ["d"],
            "z was there before"
        );
        assert_eq!(shown(&mut seen, &[(9, "e"), (9, "d")], false), ["e"]);
    }
}
