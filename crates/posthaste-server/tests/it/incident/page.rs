//! The page of the docs: its commands in their order, and what they must answer.

use crate::cli::folder::Folder;

const PAGE: &str = include_str!("../../../../../docs/incident.md");
/// The exchange on the page.
const EXCHANGE: &str = "exchange \"shop\"";

/// What is left of the page.
pub(crate) struct Page {
    rest: String,
}

impl Page {
    /// The page, about this exchange instead of its own.
    pub(crate) fn read(exchange: &str) -> Self {
        Self { rest: PAGE.replace(EXCHANGE, &format!("exchange \"{exchange}\"")) }
    }

    /// The next block in this language; those before it are passed over.
    #[track_caller]
    pub(crate) fn block(&mut self, language: &str) -> String {
        let begin = format!("```{language}\n");
        let (_, rest) =
            self.rest.split_once(&begin).unwrap_or_else(|| panic!("no further block of {language}"));
        let (block, rest) = rest.split_once("```").expect("a block ends");
        let block = block.to_owned();
        self.rest = rest.to_owned();
        block
    }

    /// Runs the commands of the next block, with this for the word `ID`, and compares. Answers what the last one said.
    #[track_caller]
    pub(crate) fn answers_as_it_says(&mut self, folder: &Folder, id: &str) -> String {
        let block = self.block("console");
        let mut said = String::new();
        for command in block.split("$ posthaste ").skip(1) {
            let (words, expected) = command.split_once('\n').unwrap_or((command, ""));
            let words: Vec<&str> =
                words.split_whitespace().map(|word| if word == "ID" { id } else { word }).collect();
            let answer = folder.ok(&words);
            said = answer.text().to_owned();
            assert!(fits(expected, &said), "posthaste {}\n{said}\nis not\n{expected}", words.join(" "));
        }
        said
    }

    /// No command may be left.
    #[track_caller]
    pub(crate) fn ends(&self) {
        assert!(!self.rest.contains("```console"), "this was not run: {}", self.rest);
    }
}

/// Whether a text is what the page says: `…` is anything, in a line or of several lines, and white space is like any other.
fn fits(expected: &str, said: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, said) = (plain(expected), plain(said));
    let mut parts = expected.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = said.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_text_fits_if_it_differs_only_where_the_page_does_not_say() {
    assert!(fits("a  … c\nd", "a b b\n c d"));
    assert!(fits("a … ", "a b"));
    assert!(fits("a", " a\n"));
    assert!(!fits("a", "a b"));
    assert!(!fits("a … c", "a b"));
    assert!(!fits("… 4 0", "4 1"));
}
