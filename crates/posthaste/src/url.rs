//! What the URLs of stores and brokers have in common.

#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
use std::time::Duration;

/// `%2F` becomes `/`; what is no such sign stays as it is.
pub(crate) fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let sign = (*first == b'%').then(|| text_of(tail.get(..2)?)).flatten();
        bytes.push(sign.unwrap_or(*first));
        rest = if sign.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn text_of(digits: &[u8]) -> Option<u8> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// `250ms`, `5s`, `2m`, `1h`; at most a day.
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let millis: u64 = match &text[unit..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let span = Duration::from_millis(text[..unit].parse::<u64>().ok()?.checked_mul(millis)?);
    (span <= Duration::from_secs(86_400)).then_some(span)
}

/// `512`, `64KiB`, `16MiB`, `1GiB`.
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let unit = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor: u64 = match &text[unit..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    text[..unit].parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
    #[test]
    fn spans_and_sizes_have_units() {
        let spans = ["250ms", "5s", "2m", "1h"].map(|text| duration(text).map(|span| span.as_millis()));
        assert_eq!(spans, [Some(250), Some(5_000), Some(120_000), Some(3_600_000)]);
        for text in ["", "5", "s", "-5s", "5 s", "25h", "99999999999999999999s", "5d"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(["512", "1KiB", "16MiB"].map(bytes), [Some(512), Some(1_024), Some(16 << 20)]);
        assert_eq!(["", "KiB", "1KB", "99999999999999GiB"].map(bytes), [None; 4]);
    }

    #[test]
    fn only_signs_are_decoded() {
        assert_eq!(decoded("a%2Fb%20c"), "a/b c");
        assert_eq!(decoded("100%25%zz%4"), "100%%zz%4");
    }
}
