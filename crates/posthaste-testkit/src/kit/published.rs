//! What a handler published into the store.

use std::fmt::Debug;

use posthaste_core::Result;
use posthaste_core::admin::{Admin, Filter, Page};
use posthaste_core::codec::Codec;
use posthaste_core::event::Event;

/// Every event of this type that is committed in the store, the oldest first.
///
/// # Errors
/// What the store says, and `Rejected` for a payload that does not decode.
pub async fn published<E: Event>(store: &dyn Admin) -> Result<Vec<E>> {
    let mut filter = Filter::default();
    filter.event_type = Some(E::TYPE.to_owned());
    let (mut page, mut payloads) = (Page::first(1_000), Vec::new());
    page.with_payload = true;
    loop {
        let found = store.find(&filter, page.clone()).await?;
        payloads.extend(found.records.into_iter().map(|record| record.envelope.payload));
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    payloads.iter().rev().map(|payload| E::Codec::decode(payload)).collect()
}

/// Panics unless this event was published, and committed, exactly once.
#[track_caller]
pub fn assert_published<'a, E: Event + PartialEq + Debug>(
    store: &'a dyn Admin,
    event: &'a E,
) -> impl Future<Output = ()> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        let all = published::<E>(store).await.expect("a store in memory answers");
        let times = all.iter().filter(|one| *one == event).count();
        assert!(times == 1, "{caller}: {event:?} was published {times} times; of its type there are {all:?}");
    }
}

/// Panics if an event of this type was published.
#[track_caller]
pub fn assert_nothing_published<E: Event + Debug>(store: &dyn Admin) -> impl Future<Output = ()> + '_ {
    let caller = std::panic::Location::caller();
    async move {
        let all = published::<E>(store).await.expect("a store in memory answers");
        assert!(all.is_empty(), "{caller}: {all:?} were published");
    }
}
