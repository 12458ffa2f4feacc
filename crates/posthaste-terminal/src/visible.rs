//! Text of others on a terminal: whatever steers the terminal, hides or turns text around is written out.
//!
//! Producers choose ids, types, keys, headers and payloads, and brokers choose the words of their errors. A
//! hidden character lets two ids look the same; one that changes the direction of writing shows the rest of a
//! line backwards.

/// Characters that leave no mark of their own: those that Unicode calls ignorable by default, the controls of
/// direction and of annotations, and the separators of lines and paragraphs. In their order.
const HIDDEN: [(char, char); 18] = [
    ('\u{00ad}', '\u{00ad}'),
    ('\u{034f}', '\u{034f}'),
    ('\u{061c}', '\u{061c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a reader would not see this character, or would see others differently because of it.
pub fn is_hidden(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    let order = |(first, last): &(char, char)| match () {
        () if *last < character => std::cmp::Ordering::Less,
        () if *first > character => std::cmp::Ordering::Greater,
        () => std::cmp::Ordering::Equal,
    };
    character.is_control() || HIDDEN.binary_search_by(order).is_ok()
}

/// One line of text in which everything can be seen: `\n`, `\u{1b}`, `\u{202e}`.
pub fn plain(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same for text of several lines, which it keeps.
pub fn lines(text: &str) -> String {
    escaped(text, |character| character == '\n')
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) && !keeps(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// JSON in which everything can be seen. Outside of its strings JSON has no such characters but white space,
/// so that what is written for them means the same.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) && !matches!(character, '\n' | '\r' | '\t') {
            out.push_str(&json_escape(character));
        } else {
            out.push(character);
        }
    }
    out
}

/// A character in a string of JSON: `\u202e`, or two of them where it takes two units of UTF-16.
pub fn json_escape(character: char) -> String {
    character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_line_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nü"), "a\\u{1b}[2Jb\\nü");
        assert_eq!(plain("\u{9b}2J\u{7f}"), "\\u{9b}2J\\u{7f}");
        assert_eq!(lines("a\u{1b}\nb"), "a\\u{1b}\nb");
    }

    #[test]
    fn what_is_invisible_or_turns_text_around_is_written_out() {
        for hidden in [
            '\u{ad}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{61c}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0001}',
            '\u{e0100}',
        ] {
            assert_eq!(plain(&format!("a{hidden}b")), format!("a\\u{{{:x}}}b", u32::from(hidden)));
        }
        let seen = "Ünïcödé 日本 العربية 🦀 a\u{a0}b \\ \" '";
        assert_eq!(plain(seen), seen);
    }

    #[test]
    fn the_ranges_are_in_their_order() {
        assert!(HIDDEN.iter().all(|(first, last)| first <= last));
        assert!(HIDDEN.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "{\n\t\"a\u{202e}\": \"\u{e0001}\u{7f} ü\"\r\n}";
        let seen = json(text);
        assert_eq!(seen, "{\n\t\"a\\u202e\": \"\\udb40\\udc01\\u007f ü\"\r\n}");
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parsed(&seen), parsed(text));
    }
}
