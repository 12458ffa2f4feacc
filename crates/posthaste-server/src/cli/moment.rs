//! Times on the command line: RFC 3339, or a duration from now.

use posthaste::time::{Clock, Moment, SystemClock, Timestamp};

use crate::config::unit;

const WRONG: &str = "write a time like 2026-11-15T21:52:03Z or a duration like 90s, 2h, 7d";

/// A time in the past: a time, or how long ago.
pub(super) fn past(text: &str) -> Result<Timestamp, String> {
    let ago = |text: &str| unit::duration(text).ok().map(|span| SystemClock.now().before(span));
    text.parse().ok().or_else(|| ago(text)).ok_or_else(|| WRONG.to_owned())
}

/// A time to come: a time, or how long after the store takes the event in.
pub(super) fn future(text: &str) -> Result<Moment, String> {
    let later = |text: &str| unit::duration(text).ok().map(Moment::In);
    text.parse().ok().map(Moment::At).or_else(|| later(text)).ok_or_else(|| WRONG.to_owned())
}

/// The same as a time, by this machine's clock; for a server that takes nothing else.
pub(super) fn resolved(moment: Moment) -> Timestamp {
    moment.resolve(SystemClock.now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_or_a_duration_will_do() {
        let exact: Timestamp = "2026-11-15T21:52:03Z".parse().unwrap();
        assert_eq!(past("2026-11-15T21:52:03Z"), Ok(exact));
        assert!(past("1h").unwrap() < SystemClock.now());
        assert_eq!(future("2026-11-15T21:52:03Z"), Ok(Moment::At(exact)));
        assert_eq!(future("90s"), Ok(Moment::In(Duration::from_secs(90))));
        assert!(past("yesterday").is_err() && future("").is_err());
    }
}
