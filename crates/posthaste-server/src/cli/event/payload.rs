//! A payload as people read it: as text, as JSON with an indent, or byte by byte.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::value::RawValue;

use super::super::output;
use crate::exit::Failure;

/// How much of a payload is shown byte by byte.
const HEX_BYTES_MAX: usize = 64 * 1024;
const HEX_BYTES_PER_LINE: usize = 16;
const INDENT: &str = "  ";

/// How a payload is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum As {
    /// As it is, with what would steer the terminal written out
    Text,
    /// With an indent; nothing but white space is changed
    Json,
    /// Byte by byte: place, bytes, and those that are letters
    Hex,
}

/// A payload as it is asked for; by default as it is, unless it would steer the terminal or is no text.
pub(super) fn shown(payload: Option<&[u8]>, wanted: Option<As>) -> Result<String, Failure> {
    let Some(payload) = payload else { return Ok("\n(the payload was erased)".to_owned()) };
    if payload.is_empty() {
        return Ok("\n(no payload)".to_owned());
    }
    let text = match wanted {
        None => plain(payload),
        Some(As::Text) => {
            String::from_utf8_lossy(payload).lines().map(output::plain).collect::<Vec<_>>().join("\n")
        }
        Some(As::Json) => indented(payload)
            .ok_or_else(|| Failure::usage("show the payload: it is not JSON; say --as text or --as hex"))?,
        Some(As::Hex) => hex(payload).trim_end().to_owned(),
    };
    Ok(format!("\n{text}"))
}

fn plain(payload: &[u8]) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    match std::str::from_utf8(payload) {
        Ok(text) if text.chars().all(harmless) => text.to_owned(),
        _ => format!("({} bytes that are no plain text: see --as hex, and --payload)", payload.len()),
    }
}

/// As `hexdump -C` shows it.
fn hex(payload: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in payload[..payload.len().min(HEX_BYTES_MAX)].chunks(HEX_BYTES_PER_LINE).enumerate() {
        let mut digits = String::new();
        for (at, byte) in bytes.iter().enumerate() {
            let gap = if at == HEX_BYTES_PER_LINE / 2 { "  " } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(digits, "{gap}{byte:02x}");
        }
        let is_letter = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let letters: String =
            bytes.iter().map(|byte| if is_letter(byte) { char::from(*byte) } else { '.' }).collect();
        let _ = writeln!(text, "{:08x} {digits:<49}  |{letters}|", line * HEX_BYTES_PER_LINE);
    }
    if payload.len() > HEX_BYTES_MAX {
        let _ = writeln!(text, "({} bytes more: see --payload)", payload.len() - HEX_BYTES_MAX);
    }
    text
}

/// JSON with an indent: numbers and the order of members stay as they are written. `None` if it is none.
fn indented(payload: &[u8]) -> Option<String> {
    let json: &RawValue = serde_json::from_slice(payload).ok()?;
    let (mut text, mut depth, mut in_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    let mut signs = json.get().chars().peekable();
    while let Some(sign) = signs.next() {
        if in_string {
            text.push(sign);
            in_string = is_escaped || sign != '"';
            is_escaped = !is_escaped && sign == '\\';
            continue;
        }
        match sign {
            ' ' | '\n' | '\t' | '\r' => {}
            '{' | '[' => {
                while signs.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                text.push(sign);
                if let Some(end) = signs.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(sign);
            }
            ',' => {
                text.push(sign);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                in_string = sign == '"';
                text.push(sign);
            }
        }
    }
    Some(text)
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.push_str(&INDENT.repeat(depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_nothing_else_is_changed() {
        let payload = br#"{"b":1.50,"a":[ ],"c":{ },"d":[1e400,"x: {\"[,]\\"],"b":null}"#;
        let expected = "{\n  \"b\": 1.50,\n  \"a\": [],\n  \"c\": {},\n  \"d\": [\n    1e400,\n    \"x: {\\\"[,]\\\\\"\n  ],\n  \"b\": null\n}";
        assert_eq!(indented(payload).as_deref(), Some(expected));
        assert_eq!(indented(b" 7 ").as_deref(), Some("7"));
        assert_eq!(indented(b"{no"), None);
        assert_eq!(indented(&[255]), None);
    }

    #[test]
    fn bytes_are_shown_as_hexdump_does_and_not_without_end() {
        let bytes: Vec<u8> = (0x41..0x54).collect();
        let expected = "00000000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  |ABCDEFGHIJKLMNOP|\n\
                        00000010  51 52 53                                          |QRS|\n";
        assert_eq!(hex(&bytes), expected);
        assert!(hex(&[0, 0x1b, 255]).ends_with("|...|\n"));
        let long = hex(&vec![0; HEX_BYTES_MAX + 3]);
        assert!(long.ends_with("|\n(3 bytes more: see --payload)\n"));
        assert_eq!(long.lines().count(), HEX_BYTES_MAX / HEX_BYTES_PER_LINE + 1);
    }
}
