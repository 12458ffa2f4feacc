//! Numbers in words.

use std::fmt::Display;

/// A number and what it counts: `1 dead event`, `2 dead events`. `things` is the plural; what follows a comma
/// stays as it is.
pub fn counted(count: impl Display, things: &str) -> String {
    let count = count.to_string();
    if count == "1" { format!("1 {}", singular(things)) } else { format!("{count} {things}") }
}

/// `2 of 3 dead events`, `1 of 1 dead event`.
pub fn counted_of(count: u64, all: u64, things: &str) -> String {
    format!("{count} of {}", counted(all, things))
}

/// Takes the plural's ending off the last word, or the last before a comma.
fn singular(things: &str) -> String {
    let (noun, rest) = things.split_at(things.find(',').unwrap_or(things.len()));
    format!("{}{rest}", noun.strip_suffix('s').unwrap_or(noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!(counted(0, "lanes"), "0 lanes");
        assert_eq!(counted(1, "lanes"), "1 lane");
        assert_eq!(counted(2, "dead events"), "2 dead events");
        assert_eq!(counted(1_usize, "dead events"), "1 dead event");
        assert_eq!(counted(1, "events, skipped or sent again"), "1 event, skipped or sent again");
        assert_eq!(counted("~1", "events"), "~1 events");
        assert_eq!(counted_of(1, 1, "lanes"), "1 of 1 lane");
        assert_eq!(counted_of(1, 3, "lanes"), "1 of 3 lanes");
    }
}
