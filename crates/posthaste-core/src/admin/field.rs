//! Fields of filters and settings of commands, as people and programs name them.
//!
//! The tables [`Filter::FIELDS`](super::Filter::FIELDS) and [`CommandKind::settings`](super::CommandKind) are
//! read by the command line, by REST in both directions, and by the description of REST. So each name and its
//! explanation stand once.

/// A field of a filter, or a setting of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in a query; on the command line, with `--` before it and `-` for `_`.
    pub name: &'static str,
    /// Its name in the JSON of the filter or command, which is what the record keeps.
    pub json: &'static str,
    /// How its value is written.
    pub kind: FieldKind,
    /// What it says, as the first words of a sentence without its end.
    pub about: &'static str,
    /// Whether it must be given.
    pub need: Need,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text {
        /// What stands for it in a help text, such as `KEY`.
        placeholder: &'static str,
    },
    /// A part of a longer text: not empty, and not long either.
    Part {
        /// The number of bytes that it may have.
        bytes_max: usize,
    },
    /// Any number of ids, each given by itself.
    Ids,
    /// The name of a lane.
    Lane,
    /// The name of a state.
    State,
    /// A pattern over topics.
    Pattern,
    /// A time: RFC 3339, and on the command line also a distance from now.
    Time,
    /// A place in the log: `beginning`, `end` or a time.
    Place,
    /// A duration, such as `7d`; seconds in JSON.
    Age,
    /// Yes or no.
    Flag,
}

/// Whether a field must be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It may be left out.
    Optional,
    /// It must be given.
    Required,
    /// It, or another field of the same command with this need, must be given.
    OneOf,
    /// This is its value when it is left out.
    Default(&'static str),
}

impl Field {
    /// A field that may be left out.
    pub const fn optional(name: &'static str, kind: FieldKind, about: &'static str) -> Self {
        Self { name, json: name, kind, about, need: Need::Optional }
    }

    /// The same with another name in JSON.
    #[must_use]
    pub const fn in_json(mut self, json: &'static str) -> Self {
        self.json = json;
        self
    }

    /// The same with another need.
    #[must_use]
    pub const fn needed(mut self, need: Need) -> Self {
        self.need = need;
        self
    }
}
