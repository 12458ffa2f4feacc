//! The encoding of attribute values in HTTP headers, as the CloudEvents HTTP binding has it (§3.1.3.2).

/// A header's value as text: quotes around it are taken off, then `%` and two hex digits give a byte. `None` if that is
/// not UTF-8. A `%` that begins no such pair stands for itself.
pub(super) fn decode(value: &[u8]) -> Option<String> {
    String::from_utf8(unescaped(&unquote(value))).ok()
}

/// The bytes with every `%` and two hex digits as the byte that they stand for.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let pair = after.first().zip(after.get(1)).filter(|_| first == b'%');
        match pair.and_then(|(&high, &low)| Some(hex(high)? << 4 | hex(low)?)) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

fn unquote(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return value.to_vec();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut inner = inner.iter();
    while let Some(&byte) = inner.next() {
        let escaped = if byte == b'\\' { inner.next() } else { None };
        bytes.push(*escaped.unwrap_or(&byte));
    }
    bytes
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn values_are_decoded_once() {
        let cases = [
            ("plain", "plain"),
            ("Euro%20%E2%82%AC", "Euro €"),
            ("%2525", "%25"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            (r#""a \"b\" \\ c""#, r#"a "b" \ c"#),
            (r#"""#, r#"""#),
            ("", ""),
        ];
        for (encoded, text) in cases {
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Some(text), "{encoded}");
        }
        assert_eq!(decode(b"%ff"), None);
    }
}
