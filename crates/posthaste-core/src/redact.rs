//! Cleans an error's text before it is stored or shown: no secrets, no control characters, not too long.

use crate::limits::ERROR_BYTES_MAX;

const HIDDEN: &str = "***";
/// Words after which the next word is a secret, with or without `=` or `:` between them.
const SECRET_NAMES: [&str; 9] =
    ["password", "passwd", "pwd", "secret", "token", "authorization", "bearer", "api_key", "apikey"];

/// The text with passwords, tokens, credentials in URLs, card numbers and e-mail addresses hidden, control characters
/// made spaces, and cut to [`ERROR_BYTES_MAX`] bytes at a character's boundary.
pub fn clean(text: &str) -> String {
    cleaned(text, |_| ' ')
}

/// The same for a list: the ends of its lines stay.
pub fn clean_lines(text: &str) -> String {
    cleaned(text, |space| if space == '\n' { '\n' } else { ' ' })
}

fn cleaned(text: &str, space: impl Fn(char) -> char) -> String {
    let mut out = String::with_capacity(text.len().min(ERROR_BYTES_MAX));
    let mut secret_follows = false;
    // More than the limit need not be looked at: hiding never makes a word longer than three characters more.
    for word in text.split_inclusive(|c: char| c.is_whitespace() || c.is_control()) {
        if out.len() > ERROR_BYTES_MAX {
            break;
        }
        let body = word.trim_end_matches(|c: char| c.is_whitespace() || c.is_control());
        let spaces = &word[body.len()..];
        let scheme = body.eq_ignore_ascii_case("bearer") || body.eq_ignore_ascii_case("basic");
        if secret_follows && !body.is_empty() && !scheme && body != "=" && body != ":" {
            out.push_str(HIDDEN);
            secret_follows = false;
        } else {
            push_clean(&mut out, body);
            secret_follows |= names_a_secret(body);
        }
        out.extend(spaces.chars().map(&space));
    }
    cut(&mut out);
    out
}

fn names_a_secret(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_ascii_lowercase();
    let asks = word.ends_with([':', '=']) || bare == "bearer";
    asks && SECRET_NAMES.contains(&bare.as_str())
}

fn push_clean(out: &mut String, word: &str) {
    if let Some((name, value)) = split_assignment(word)
        && !value.is_empty()
    {
        out.push_str(name);
        out.push_str(HIDDEN);
    } else if let Some((before, after)) = split_credentials(word) {
        out.push_str(before);
        out.push_str(HIDDEN);
        out.push_str(after);
    } else if looks_like_jwt(word) || looks_like_card(word) || looks_like_mail(word) {
        out.push_str(HIDDEN);
    } else {
        out.push_str(word);
    }
}

/// `password=hunter2` → (`password=`, `hunter2`); also inside a URL's query or JSON.
fn split_assignment(word: &str) -> Option<(&str, &str)> {
    let lower = word.to_ascii_lowercase();
    if lower.len() != word.len() {
        return None;
    }
    SECRET_NAMES.iter().find_map(|name| {
        let at = lower.find(name)? + name.len();
        let rest = &word[at..];
        let sign =
            rest.find(['=', ':']).filter(|&sign| rest[..sign].chars().all(|c| c == '"' || c == '\''))?;
        Some(word.split_at(at + sign + 1))
    })
}

/// `postgres://user:pass@host/db` → (`postgres://`, `@host/db`).
fn split_credentials(word: &str) -> Option<(&str, &str)> {
    let start = word.find("://")? + 3;
    let authority_end = word[start..].find(['/', '?', '#']).map_or(word.len(), |end| start + end);
    let at = word[start..authority_end].rfind('@')? + start;
    Some((&word[..start], &word[at..]))
}

fn looks_like_jwt(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    bare.starts_with("eyJ") && bare.matches('.').count() == 2
}

fn looks_like_card(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    (13..=19).contains(&digits)
        && word.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b.is_ascii_punctuation())
}

fn looks_like_mail(word: &str) -> bool {
    let Some((local, domain)) = word.split_once('@') else { return false };
    let local = local.trim_start_matches(|c: char| !c.is_alphanumeric());
    !local.is_empty() && domain.contains('.') && !word.contains('/')
}

fn cut(text: &mut String) {
    if text.len() > ERROR_BYTES_MAX {
        let mut end = ERROR_BYTES_MAX - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_is_kept() {
        let table = [
            ("connection refused", "connection refused"),
            (
                "connect amqp://guest:s3cret@rabbit:5672/vhost: refused",
                "connect amqp://***@rabbit:5672/vhost: refused",
            ),
            ("password=hunter2 for user bob", "password=*** for user bob"),
            ("password: hunter2 wrong", "password: *** wrong"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("got eyJhbGciOi.eyJzdWIi.c2ln back", "got *** back"),
            ("card 4111-1111-1111-1111 declined", "card *** declined"),
            ("no such user bob@example.com here", "no such user *** here"),
            ("line one\nline\ttwo\u{1b}[31m", "line one line two [31m"),
        ];
        for (text, expected) in table {
            assert_eq!(clean(text), expected);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_in_stays_bounded_and_printable(text in ".{0,3000}") {
            let cleaned = clean(&text);
            prop_assert!(cleaned.len() <= ERROR_BYTES_MAX);
            prop_assert!(!cleaned.chars().any(char::is_control));
        }
    }
}
