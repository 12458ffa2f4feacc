//! Durations and sizes as people write them: `25ms`, `1h30m`, `16MiB`.

use std::num::NonZeroU32;
use std::time::Duration;

const DURATIONS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Reads a duration: whole numbers with the units `ms`, `s`, `m`, `h`, `d`, one after another.
///
/// # Errors
/// Says how to write one.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || "is not a duration; write a number with a unit (ms, s, m, h, d), like 10s or 1h30m".to_owned();
    let mut rest = text.trim();
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (number, after) = split_number(rest).ok_or_else(wrong)?;
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let (_, factor) = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        millis = number.checked_mul(*factor).and_then(|part| millis.checked_add(part)).ok_or_else(wrong)?;
        rest = next.trim_start();
    }
    Ok(Duration::from_millis(millis))
}

/// Reads a rate: how many in a second, like `100/s` or `100`.
///
/// # Errors
/// Says how to write one.
pub fn rate(text: &str) -> Result<NonZeroU32, String> {
    let number = text.trim().strip_suffix("/s").unwrap_or(text.trim());
    number.parse().map_err(|_| "is not a rate; write how many a second, like 100/s".to_owned())
}

/// Reads a size: a whole number with one of the units `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`.
///
/// # Errors
/// Says how to write one.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "is not a size; write a number with a unit (B, KiB, MiB, GiB), like 16MiB".to_owned();
    let (number, unit) = split_number(text.trim()).ok_or_else(wrong)?;
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(wrong)?;
    number.checked_mul(*factor).ok_or_else(wrong)
}

/// Writes a duration so that [`duration`] reads it back; parts below a millisecond are cut.
pub fn show_duration(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let fitting =
        DURATIONS.iter().rev().find(|(_, factor)| millis >= *factor && millis.is_multiple_of(*factor));
    let (unit, factor) = fitting.unwrap_or(&("ms", 1));
    format!("{}{unit}", millis / factor)
}

/// Writes a size so that [`size`] reads it back.
pub fn show_size(bytes: u64) -> String {
    let binary = SIZES[..4].iter().rev();
    let fitting = binary.into_iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    let (unit, factor) = fitting.unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / factor)
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_may_be_joined() {
        let table = [
            ("25ms", 25),
            ("10s", 10_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "10",
            "s",
            "10 seconds",
            "-1s",
            "1.5s",
            "10sx",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_need_a_unit() {
        for (text, bytes) in [("16MiB", 16 << 20), ("1 KiB", 1024), ("5MB", 5_000_000), ("0B", 0)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "16", "MiB", "16mib", "-1B", "1.5MiB", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for millis in [0, 1, 999, 1_000, 90_000, 3_600_000, 86_400_000, 86_400_001] {
            let span = Duration::from_millis(millis);
            assert_eq!(duration(&show_duration(span)), Ok(span));
        }
        for bytes in [0, 1, 1023, 1024, 1 << 20, (1 << 30) + 1] {
            assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }
    }
}
