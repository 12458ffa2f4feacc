//! JSON with an indent, written piece by piece and not without end.
//!
//! Each level of nesting adds to every line below it, so that a payload of 600 KB could become 20 GB: what is
//! nested deeper than [`DEPTH_MAX`] is left out, and so is what comes after [`BYTES_MAX`]. Nothing is held in
//! memory but the payload itself.

use std::io::{self, Write};

use serde_json::value::RawValue;

use super::super::visible;

/// How many levels are shown. What is published over REST may have as many, unless the server is told
/// otherwise.
pub(super) const DEPTH_MAX: usize = 128;
/// How many bytes are written.
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;
const INDENT: &str = "  ";
/// Stands for what is nested too deep.
const LEFT_OUT: &str = "…";

/// What of a payload was not shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Objects and arrays that are nested too deep.
    pub(super) deep: usize,
    /// Whether it is longer than what may be written.
    pub(super) is_long: bool,
}

/// Writes JSON with an indent: numbers and the order of members stay as they are written, and hidden
/// characters are escaped.
pub(super) fn write(json: &RawValue, out: &mut dyn Write) -> io::Result<Cut> {
    write_within(json.get(), BYTES_MAX, out)
}

fn write_within(json: &str, bytes_max: usize, out: &mut dyn Write) -> io::Result<Cut> {
    let mut writing = Writing { out, bytes_left: bytes_max, depth: 0, is_full: false };
    let (mut rest, mut deep) = (json, 0);
    while let Some(sign) = rest.chars().next().filter(|_| !writing.is_full) {
        let is_deep = matches!(sign, '{' | '[') && writing.depth == DEPTH_MAX;
        let token = if is_deep { whole(rest) } else { token(rest) };
        let (text, after) = rest.split_at(token);
        rest = after.trim_start();
        let is_empty = rest.starts_with(['}', ']']);
        match sign {
            '{' | '[' if is_deep => {
                deep += 1;
                let end = if sign == '{' { '}' } else { ']' };
                writing.put(&format!("{sign}{LEFT_OUT}{end}"))?;
            }
            '{' | '[' if is_empty => {
                writing.put(&text[..1])?;
                writing.put(&rest[..1])?;
                rest = rest[1..].trim_start();
            }
            '{' | '[' => writing.open(text)?,
            '}' | ']' => writing.close(text)?,
            ',' => writing.put(text).and_then(|()| writing.new_line())?,
            ':' => writing.put(": ")?,
            '"' => writing.put_string(text)?,
            _ => writing.put(text)?,
        }
    }
    Ok(Cut { deep, is_long: writing.is_full })
}

/// How many bytes the first token has: a string, a sign, or a number or word.
fn token(json: &str) -> usize {
    match json.as_bytes()[0] {
        b'"' => string(json),
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
        _ => json.find(|c: char| c.is_ascii_whitespace() || ",]}".contains(c)).unwrap_or(json.len()),
    }
}

/// How many bytes a string has, with its quotes.
fn string(json: &str) -> usize {
    let mut is_escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(json.len(), |end| end + 2)
}

/// How many bytes an object or an array has, with all that is in it.
fn whole(json: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(sign) = json.as_bytes().get(at) {
        match sign {
            b'"' => at += string(&json[at..]) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

struct Writing<'a> {
    out: &'a mut dyn Write,
    bytes_left: usize,
    depth: usize,
    /// Something was not written for lack of room, and nothing is after it.
    is_full: bool,
}

impl Writing<'_> {
    /// Writes this, or as much of it as may still be written.
    fn put(&mut self, text: &str) -> io::Result<()> {
        let end = text.floor_char_boundary(self.bytes_left);
        self.is_full |= end < text.len();
        self.bytes_left = if self.is_full { 0 } else { self.bytes_left - end };
        self.out.write_all(&text.as_bytes()[..end])
    }

    /// A string may be as long as the payload, so it is written from one hidden character to the next.
    fn put_string(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some((at, hidden)) = rest.char_indices().find(|(_, sign)| visible::is_hidden(*sign)) {
            self.put(&rest[..at])?;
            let escape = visible::json_escape(hidden);
            self.is_full |= escape.len() > self.bytes_left;
            if self.is_full {
                return Ok(());
            }
            self.put(&escape)?;
            rest = &rest[at + hidden.len_utf8()..];
        }
        self.put(rest)
    }

    fn open(&mut self, sign: &str) -> io::Result<()> {
        self.depth += 1;
        self.put(sign)?;
        self.new_line()
    }

    fn close(&mut self, sign: &str) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        self.new_line()?;
        self.put(sign)
    }

    fn new_line(&mut self) -> io::Result<()> {
        self.put("\n")?;
        (0..self.depth).try_for_each(|_| self.put(INDENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(json: &str, bytes_max: usize) -> (String, Cut) {
        let mut out = Vec::new();
        let cut = write_within(json, bytes_max, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), cut)
    }

    fn indented(json: &str) -> String {
        let (text, cut) = within(json, BYTES_MAX);
        assert_eq!(cut, Cut::default(), "{json}");
        text
    }

    #[test]
    fn json_is_indented_and_nothing_else_is_changed() {
        let payload = r#"{"b":1.50,"a":[ ],"c":{ },"d" : [1e400 ,"x: {\"[,]\\"],"b":null}"#;
        let expected = "{\n  \"b\": 1.50,\n  \"a\": [],\n  \"c\": {},\n  \"d\": [\n    1e400,\n    \"x: {\\\"[,]\\\\\"\n  ],\n  \"b\": null\n}";
        assert_eq!(indented(payload), expected);
        assert_eq!((indented("7"), indented("\"\"")), ("7".to_owned(), "\"\"".to_owned()));
        assert_eq!(indented("[ [ ] , { } ]"), "[\n  [],\n  {}\n]");
    }

    #[test]
    fn hidden_characters_are_escaped_and_the_json_stays_the_same() {
        let payload = "[\"a\u{202e}b\u{7f}\",\"ü\"]";
        let text = indented(payload);
        assert_eq!(text, "[\n  \"a\\u202eb\\u007f\",\n  \"ü\"\n]");
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parsed(&text), parsed(payload));
    }

    #[test]
    fn what_is_nested_too_deep_is_left_out_and_the_rest_is_shown() {
        let nested = |depth: usize, inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        indented(&nested(DEPTH_MAX, "1"));
        let (text, cut) = within(&nested(DEPTH_MAX, "[\"]\\\"\",[]],{\"a\":{}},2"), BYTES_MAX);
        assert_eq!(cut, Cut { deep: 2, is_long: false });
        let shown: Vec<_> = text.lines().map(str::trim).filter(|line| *line != "[" && *line != "]").collect();
        assert_eq!(shown, ["[…],", "{…},", "2"], "{text}");
        let (text, cut) = within(&nested(100_000, ""), BYTES_MAX);
        assert_eq!(cut.deep, 1);
        assert!(text.len() < 50_000, "{}", text.len());
    }

    #[test]
    fn what_is_too_long_is_cut_between_two_characters() {
        let long = format!("[{}]", vec!["\"üü\""; 1_000].join(","));
        for bytes_max in 0..200 {
            let (text, cut) = within(&long, bytes_max);
            assert!(text.len() <= bytes_max && cut.is_long, "{bytes_max}: {text}");
        }
        let (text, cut) = within(&format!("\"{}\"", "\u{202e}".repeat(1_000)), 60);
        assert!(text.len() <= 60 && text.ends_with("\\u202e") && cut.is_long, "{text}");
    }
}
