//! Which deliveries were asked for: a consumer hands out what is pulled, and ends a pull that it could not serve in time.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// How long a pull waits at the server. What a feed asked for before it was dropped is handed to it for so long, and given back.
const EXPIRES: Duration = Duration::from_secs(1);
/// How much later the server may say that a pull has ended.
const GRACE: Duration = Duration::from_secs(10);

/// The pulls of a feed that have not ended.
#[derive(Debug, Default)]
pub(super) struct Pulls {
    open: Vec<Pull>,
    next: u64,
    /// Pulls of which nothing was heard, since something was heard.
    unheard: u32,
}

#[derive(Debug)]
struct Pull {
    number: u64,
    source: usize,
    left: usize,
    due: Instant,
}

impl Pulls {
    /// How many deliveries to ask a source for, if there is room for so many: none while half of that is asked for already.
    pub(super) fn wanted(&self, source: usize, room: usize) -> usize {
        let asked: usize = self.open.iter().filter(|pull| pull.source == source).map(|pull| pull.left).sum();
        if room == 0 || asked * 2 > room { 0 } else { room - asked }
    }

    /// Asks for so many of a source; answers the number of the pull, and what to say.
    pub(super) fn ask(&mut self, source: usize, count: usize) -> (u64, Bytes) {
        self.next += 1;
        let due = Instant::now() + EXPIRES + GRACE;
        self.open.push(Pull { number: self.next, source, left: count, due });
        (self.next, Bytes::from(format!("{{\"batch\":{count},\"expires\":{}}}", EXPIRES.as_nanos())))
    }

    /// A delivery of this source came.
    pub(super) fn took(&mut self, source: usize) {
        self.unheard = 0;
        if let Some(at) = self.open.iter().position(|pull| pull.source == source) {
            self.open[at].left -= 1;
            if self.open[at].left == 0 {
                self.open.remove(at);
            }
        }
    }

    /// This pull has ended.
    pub(super) fn ended(&mut self, number: u64) {
        self.unheard = 0;
        self.open.retain(|pull| pull.number != number);
    }

    /// When the first of them is overdue.
    pub(super) fn due(&self) -> Option<Instant> {
        self.open.iter().map(|pull| pull.due).min()
    }

    /// Forgets what is overdue; answers whether the server has been silent about too many.
    pub(super) fn expire(&mut self) -> bool {
        let (now, before) = (Instant::now(), self.open.len());
        self.open.retain(|pull| pull.due > now);
        self.unheard += u32::try_from(before - self.open.len()).unwrap_or(u32::MAX);
        self.unheard > 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// What the subject says by which a delivery is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handed<'a> {
    pub(super) stream: &'a str,
    pub(super) consumer: &'a str,
    /// How often it was handed out.
    pub(super) delivered: u32,
    /// Its number in the stream.
    pub(super) sequence: u64,
    /// When the stream has taken it, in nanoseconds.
    pub(super) nanos: i128,
}

/// `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<…>.<time>.…`, or with a domain and an account's hash before the stream.
pub(super) fn delivery_of(reply: &str) -> Option<Handed<'_>> {
    let words: Vec<&str> = reply.split('.').collect();
    let rest = match words.as_slice() {
        ["$JS", "ACK", rest @ ..] if rest.len() == 7 => rest,
        ["$JS", "ACK", _, _, rest @ ..] if rest.len() >= 7 => rest,
        _ => return None,
    };
    let delivered = u32::try_from(rest[2].parse::<u64>().ok()?).unwrap_or(u32::MAX);
    let (sequence, nanos) = (rest[3].parse().ok()?, rest[5].parse().ok()?);
    Some(Handed { stream: rest[0], consumer: rest[1], delivered, sequence, nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_asked_for_than_there_is_room() {
        let mut pulls = Pulls::default();
        assert_eq!(pulls.wanted(0, 10), 10);
        let (first, text) = pulls.ask(0, 10);
        assert_eq!(text, "{\"batch\":10,\"expires\":1000000000}");
        assert_eq!((pulls.wanted(0, 10), pulls.wanted(1, 10)), (0, 10), "each source for itself");
        for _ in 0..6 {
            pulls.took(0);
        }
        assert_eq!((pulls.wanted(0, 4), pulls.wanted(0, 10), pulls.wanted(0, 0)), (0, 6, 0));
        pulls.ended(first);
        assert_eq!(pulls.wanted(0, 1), 1);
        pulls.ask(1, 1);
        pulls.took(1);
        assert!(pulls.is_empty());
    }

    #[test]
    fn a_delivery_is_known_by_its_reply_subject() {
        let plain = "$JS.ACK.orders.g~t.2.7.9.1700000000.0";
        let handed =
            Handed { stream: "orders", consumer: "g~t", delivered: 2, sequence: 7, nanos: 1_700_000_000 };
        assert_eq!(delivery_of(plain).as_ref(), Some(&handed));
        let with_domain = "$JS.ACK.hub.ABC.orders.g~t.2.7.9.1700000000.0.tok";
        assert_eq!(delivery_of(with_domain), Some(handed));
        assert_eq!(delivery_of("_INBOX.x.1"), None);
    }
}
