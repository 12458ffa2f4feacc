//! A payload as people read it: as text, as JSON with an indent, or byte by byte. It is written piece by
//! piece, so that showing it takes little more memory than the payload itself.

use std::io::{self, Write};

use clap::ValueEnum;
use serde_json::value::RawValue;

use super::super::visible;
use super::indent::{self, Cut};
use crate::exit::Failure;

/// How much of a payload is shown byte by byte.
const HEX_BYTES_MAX: usize = 64 * 1024;
const HEX_BYTES_PER_LINE: usize = 16;
/// How to get what is not shown.
const WHOLE: &str = "--payload writes the payload byte for byte";

/// How a payload is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum As {
    /// As it is, with control and hidden characters written out
    Text,
    /// With an indent; only white space is changed, and hidden characters are escaped
    Json,
    /// Byte by byte: place, bytes, and those that are letters
    Hex,
}

/// A payload that can be shown as it was asked for.
#[derive(Debug)]
pub(super) enum View<'a> {
    /// There is nothing to show, for this reason.
    Nothing(String),
    Text(&'a [u8]),
    Json(&'a RawValue),
    Hex(&'a [u8]),
}

impl<'a> View<'a> {
    /// The payload as it is asked for; by default as text, unless it is not text or would steer the terminal.
    ///
    /// # Errors
    /// A payload that is not JSON cannot be shown as such.
    pub(super) fn of(payload: Option<&'a [u8]>, wanted: Option<As>) -> Result<Self, Failure> {
        let Some(payload) = payload else { return Ok(Self::Nothing("(the payload was erased)".to_owned())) };
        if payload.is_empty() {
            return Ok(Self::Nothing("(no payload)".to_owned()));
        }
        match wanted {
            None if is_text(payload) => Ok(Self::Text(payload)),
            None => {
                let bytes = payload.len();
                Ok(Self::Nothing(format!(
                    "({bytes} bytes that are not plain text: see --as hex, and --payload)"
                )))
            }
            Some(As::Text) => Ok(Self::Text(payload)),
            Some(As::Json) => serde_json::from_slice(payload)
                .map(Self::Json)
                .map_err(|_| Failure::usage("show the payload: it is not JSON; say --as text or --as hex")),
            Some(As::Hex) => Ok(Self::Hex(payload)),
        }
    }

    /// Writes it, with a line's end.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Nothing(why) => writeln!(out, "{why}"),
            Self::Text(payload) => text(payload, out),
            Self::Json(json) => {
                let cut = indent::write(json, out)?;
                writeln!(out)?;
                tell(&cut, out)
            }
            Self::Hex(payload) => hex(payload, out),
        }
    }
}

fn is_text(payload: &[u8]) -> bool {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    std::str::from_utf8(payload).is_ok_and(|text| text.chars().all(harmless))
}

/// Line by line. What is not text of UTF-8 is shown as `�`.
fn text(payload: &[u8], out: &mut dyn Write) -> io::Result<()> {
    for line in payload.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // A tab moves on and hides nothing.
        let parts =
            line.split(|byte| *byte == b'\t').map(|part| visible::plain(&String::from_utf8_lossy(part)));
        writeln!(out, "{}", parts.collect::<Vec<_>>().join("\t"))?;
    }
    Ok(())
}

/// Says what was not shown, and how to get it.
fn tell(cut: &Cut, out: &mut dyn Write) -> io::Result<()> {
    if cut.deep > 0 {
        let depth = indent::DEPTH_MAX;
        writeln!(out, "(cut: what is nested deeper than {depth} levels is shown as {{…}} or […]; {WHOLE})")?;
    }
    if cut.is_long {
        let mib = indent::BYTES_MAX >> 20;
        writeln!(out, "(cut: only the first {mib} MiB are shown; {WHOLE})")?;
    }
    Ok(())
}

/// As `hexdump -C` shows it.
fn hex(payload: &[u8], out: &mut dyn Write) -> io::Result<()> {
    for (line, bytes) in payload[..payload.len().min(HEX_BYTES_MAX)].chunks(HEX_BYTES_PER_LINE).enumerate() {
        let mut digits = String::new();
        for (at, byte) in bytes.iter().enumerate() {
            let gap = if at == HEX_BYTES_PER_LINE / 2 { "  " } else { " " };
            digits.push_str(&format!("{gap}{byte:02x}"));
        }
        let is_letter = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let letters: String =
            bytes.iter().map(|byte| if is_letter(byte) { char::from(*byte) } else { '.' }).collect();
        writeln!(out, "{:08x} {digits:<49}  |{letters}|", line * HEX_BYTES_PER_LINE)?;
    }
    if payload.len() > HEX_BYTES_MAX {
        writeln!(out, "(cut: {} bytes more; {WHOLE})", payload.len() - HEX_BYTES_MAX)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(payload: &[u8], wanted: Option<As>) -> String {
        let mut out = Vec::new();
        View::of(Some(payload), wanted).unwrap().write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_is_shown_as_it_is_except_for_hidden_characters() {
        assert_eq!(shown("a\tb\r\n\nü\u{202e}c".as_bytes(), None), "a\tb\n\nü\\u{202e}c\n");
        assert_eq!(shown(b"a\x1b[2J\xff\n", Some(As::Text)), "a\\u{1b}[2J\u{fffd}\n");
        for binary in [&b"\x1b[2J"[..], &[255]] {
            assert!(shown(binary, None).contains("not plain text"));
        }
        assert_eq!(shown(b"", Some(As::Json)), "(no payload)\n");
    }

    #[test]
    fn json_says_what_was_cut_and_what_is_not_json_is_refused() {
        assert_eq!(shown(b" {\"a\":1} ", Some(As::Json)), "{\n  \"a\": 1\n}\n");
        let deep = shown(&[vec![b'['; 500], vec![b']'; 500]].concat(), Some(As::Json));
        assert!(deep.ends_with("--payload writes the payload byte for byte)\n"), "{deep}");
        let long = shown(format!("[{}1]", "1,".repeat(4 << 20)).as_bytes(), Some(As::Json));
        assert!(
            long.len() < indent::BYTES_MAX + 200 && long.contains("(cut: only the first 4 MiB"),
            "{}",
            long.len()
        );
        for broken in [&b"{no"[..], &[255]] {
            assert!(View::of(Some(broken), Some(As::Json)).is_err());
        }
    }

    #[test]
    fn bytes_are_shown_as_hexdump_does_and_not_without_end() {
        let bytes: Vec<u8> = (0x41..0x54).collect();
        let expected = "00000000  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  |ABCDEFGHIJKLMNOP|\n\
                        00000010  51 52 53                                          |QRS|\n";
        assert_eq!(shown(&bytes, Some(As::Hex)), expected);
        assert!(shown(&[0, 0x1b, 255], Some(As::Hex)).ends_with("|...|\n"));
        let long = shown(&vec![0; HEX_BYTES_MAX + 3], Some(As::Hex));
        assert!(long.ends_with("|\n(cut: 3 bytes more; --payload writes the payload byte for byte)\n"));
        assert_eq!(long.lines().count(), HEX_BYTES_MAX / HEX_BYTES_PER_LINE + 1);
    }
}
