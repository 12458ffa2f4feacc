//! What an operator does to a store, and what is known about each command.
//!
//! A command is a variant of [`Command`] and a [`CommandKind`] in this file. The command line, REST, the
//! audit and the description of REST read the kind; the fields of the variant become JSON by serde, which
//! is what the record keeps. What a command does is in the stores.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::EventState;
use super::field::{Field, FieldKind, Need};
use crate::as_text::{as_fields, json_as_text};
use crate::time::{Moment, Timestamp, seconds};
use crate::{Error, Result};

/// What an operator does.
///
/// As JSON it is an object whose `command` is [`CommandKind::name`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Command {
    /// Dead events of the filter's lane become due now. They stand outside their key's order.
    Redrive {
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// Events of the filter's lane that were delivered are delivered again, outside their key's order.
    Replay {
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// Dead or waiting events of the filter's lane are given up, with a record.
    Discard {
        /// Why.
        reason: String,
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// Events that the filter's lane has parked and that are not dead become dead, with a reason. A redrive
    /// brings them back.
    Bury {
        /// Why.
        reason: String,
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// Events of the filter's lane that are retrying or scheduled become due at this time.
    Schedule {
        /// When, by the store's clock.
        #[serde(flatten)]
        at: Moment,
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// The filter's lane (or all lanes) stops being driven; what is in flight is finished.
    Pause,
    /// The filter's lane (or all lanes) may be driven again.
    Resume,
    /// The filter's lane continues from here; parked events stay parked. What it wanted and passes unread
    /// counts as accepted and discarded; what it passed and wants comes again, and counts again.
    Seek {
        /// Where.
        to: Seek,
        /// Only count what would be skipped or repeated, of what the lane wants.
        #[serde(default)]
        dry_run: bool,
    },
    /// The filter's lane passes what it has not read and was taken in longer ago than this. What it wanted
    /// of that counts as discarded, and its row says why. Never moves a lane back; parked events stay
    /// parked.
    Skip {
        /// How old.
        #[serde(rename = "age_s", with = "seconds")]
        age: Duration,
        /// Why.
        reason: String,
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// The filter's lane is forgotten, with what it has parked. The record also says how much it had not
    /// read, at most.
    Remove {
        /// Only count what is parked.
        #[serde(default)]
        dry_run: bool,
    },
    /// Old events go: those that every lane has passed and that nothing parks, and old dead or discarded
    /// ones if asked for.
    Prune {
        /// Events taken in longer ago than this.
        #[serde(rename = "delivered_age_s", with = "seconds::maybe", default)]
        delivered_age: Option<Duration>,
        /// Dead and discarded events that became so longer ago than this.
        #[serde(rename = "dead_age_s", with = "seconds::maybe", default)]
        dead_age: Option<Duration>,
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// What consumers remember goes: rows of the inbox and idempotency records that ended longer ago than
    /// this. An event that comes again after that has its effect again.
    PruneInbox {
        /// How long they are kept.
        #[serde(rename = "age_s", with = "seconds")]
        age: Duration,
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
    /// A database that was restored, copied or upgraded is made this server's own: everything that not
    /// every lane has passed is handed out again, and nothing is skipped. About all lanes; takes no filter.
    Rebase {
        /// It was upgraded in place, with every transaction's id: only where it is now is recorded.
        #[serde(default)]
        upgraded: bool,
        /// Only count what is handed out again.
        #[serde(default)]
        dry_run: bool,
    },
    /// The events' payloads are overwritten; the rest of the event stays.
    Erase {
        /// Only count.
        #[serde(default)]
        dry_run: bool,
    },
}

/// What is known about a command, however it is given.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandKind {
    /// The word for it: on the command line, in REST and in the record.
    pub name: &'static str,
    /// Whether operators give it. The others are what a server does by itself.
    pub is_given: bool,
    /// Which lanes it is about.
    pub lanes: LaneNeed,
    /// Whether the filter chooses single events.
    pub takes_filter: bool,
    /// What is changed, also where no event matches.
    pub subject: Subject,
    /// Whether it can only count.
    pub takes_dry_run: bool,
    /// Whether it can be held to a rate.
    pub takes_rate: bool,
    /// Whether it cannot be undone: it needs consent.
    pub is_for_good: bool,
    /// Whether it may take long, and can be stopped between two steps.
    pub is_in_steps: bool,
    /// Whether a broker can do it to the dead letters of a group.
    pub is_for_dead_letters: bool,
    /// The state that its events are in, if it is about one.
    pub state: Option<EventState>,
    /// The states of the events that a sample shows: in a log, where only what is parked can be changed,
    /// and in an outbox table. `None` in it: any state.
    pub sampled: Sampled,
    /// What else it is told.
    pub settings: &'static [Field],
}

/// The lanes that a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneNeed {
    /// The filter must name one.
    One,
    /// One that the filter names, or explicitly all.
    OneOrAll,
    /// One that the filter names, or all.
    Any,
    /// All of them: the filter may not name one.
    All,
}

/// What a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Events: where none matches, nothing is changed.
    Events,
    /// The place of a lane, which is recorded also where it passes no event.
    Place,
    /// Lanes or the database, also where no event is changed: consent is needed all the same.
    Lanes,
}

/// The states of the events that a sample shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// In a log.
    pub in_log: &'static [Option<EventState>],
    /// In an outbox table, where everything that waits can be changed.
    pub in_table: &'static [Option<EventState>],
}

impl Sampled {
    const NONE: Self = Self::both(&[]);

    const fn both(states: &'static [Option<EventState>]) -> Self {
        Self { in_log: states, in_table: states }
    }
}

const REASON: Field =
    Field::optional("reason", FieldKind::Text { placeholder: "REASON" }, "Why, for the record");
const OLDER_THAN: Field = Field::optional("older_than", FieldKind::Age, "An age like 7d");

/// What most commands have in common: one lane, whose events a filter chooses.
const ON_EVENTS: CommandKind = CommandKind {
    name: "",
    is_given: true,
    lanes: LaneNeed::One,
    takes_filter: true,
    subject: Subject::Events,
    takes_dry_run: true,
    takes_rate: true,
    is_for_good: false,
    is_in_steps: true,
    is_for_dead_letters: false,
    state: None,
    sampled: Sampled::NONE,
    settings: &[],
};

const REDRIVE: CommandKind = CommandKind {
    name: "redrive",
    is_for_dead_letters: true,
    state: Some(EventState::Dead),
    sampled: Sampled::both(&[Some(EventState::Dead)]),
    ..ON_EVENTS
};

const REPLAY: CommandKind = CommandKind {
    name: "replay",
    state: Some(EventState::Delivered),
    sampled: Sampled::both(&[Some(EventState::Delivered)]),
    ..ON_EVENTS
};

const DISCARD: CommandKind = CommandKind {
    name: "discard",
    is_for_good: true,
    is_for_dead_letters: true,
    state: Some(EventState::Dead),
    sampled: Sampled::both(&[Some(EventState::Dead)]),
    settings: &[REASON.needed(Need::Default("discarded by an operator"))],
    ..ON_EVENTS
};

const BURY: CommandKind = CommandKind {
    name: "bury",
    sampled: Sampled {
        in_log: &[
            Some(EventState::Retrying),
            Some(EventState::Scheduled),
            Some(EventState::Behind),
            Some(EventState::Delivering),
        ],
        in_table: &[Some(EventState::Pending)],
    },
    settings: &[REASON.needed(Need::Default("buried by an operator"))],
    ..ON_EVENTS
};

const SCHEDULE: CommandKind = CommandKind {
    name: "schedule",
    sampled: Sampled {
        in_log: &[Some(EventState::Retrying), Some(EventState::Scheduled)],
        in_table: &[Some(EventState::Pending)],
    },
    settings: &[Field::optional("at", FieldKind::Time, "When").needed(Need::Required)],
    ..ON_EVENTS
};

const ERASE: CommandKind = CommandKind {
    name: "erase",
    lanes: LaneNeed::Any,
    is_for_good: true,
    sampled: Sampled::both(&[None]),
    ..ON_EVENTS
};

/// What commands have in common that are about lanes as a whole.
const ON_LANES: CommandKind = CommandKind {
    takes_filter: false,
    subject: Subject::Lanes,
    takes_rate: false,
    is_in_steps: false,
    ..ON_EVENTS
};

const PAUSE: CommandKind =
    CommandKind { name: "pause", lanes: LaneNeed::OneOrAll, takes_dry_run: false, ..ON_LANES };

const RESUME: CommandKind = CommandKind { name: "resume", ..PAUSE };

const SEEK: CommandKind = CommandKind {
    name: "seek",
    subject: Subject::Place,
    is_for_good: true,
    is_in_steps: true,
    settings: &[
        Field::optional("to", FieldKind::Place, "Where: beginning, end or a time").needed(Need::Required)
    ],
    ..ON_LANES
};

const SKIP: CommandKind = CommandKind {
    name: "skip",
    is_given: false,
    subject: Subject::Events,
    is_in_steps: true,
    settings: &[
        Field::optional("age", FieldKind::Age, "How old").in_json("age_s").needed(Need::Required),
        REASON.needed(Need::Required),
    ],
    ..ON_LANES
};

const REMOVE: CommandKind = CommandKind { name: "remove", is_for_good: true, ..ON_LANES };

const PRUNE: CommandKind = CommandKind {
    name: "prune",
    lanes: LaneNeed::All,
    subject: Subject::Events,
    takes_rate: true,
    is_for_good: true,
    is_in_steps: true,
    settings: &[
        OLDER_THAN.in_json("delivered_age_s").needed(Need::OneOf),
        Field::optional("dead_older_than", FieldKind::Age, "An age like 30d")
            .in_json("dead_age_s")
            .needed(Need::OneOf),
    ],
    ..ON_LANES
};

const PRUNE_INBOX: CommandKind = CommandKind {
    name: "prune-inbox",
    settings: &[OLDER_THAN.in_json("age_s").needed(Need::Required)],
    ..PRUNE
};

const REBASE: CommandKind = CommandKind {
    name: "rebase",
    lanes: LaneNeed::All,
    is_for_good: true,
    settings: &[Field::optional("upgraded", FieldKind::Flag, "By pg_upgrade")],
    ..ON_LANES
};

impl CommandKind {
    /// Every command.
    pub const ALL: [&'static Self; 14] = [
        &REDRIVE,
        &REPLAY,
        &DISCARD,
        &BURY,
        &SCHEDULE,
        &PAUSE,
        &RESUME,
        &SEEK,
        &SKIP,
        &REMOVE,
        &PRUNE,
        &PRUNE_INBOX,
        &REBASE,
        &ERASE,
    ];

    /// The commands that operators give.
    pub fn given() -> impl Iterator<Item = &'static Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_given)
    }

    /// The command with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|kind| kind.name == name)
    }
}

impl Command {
    /// What is known about it.
    pub fn kind(&self) -> &'static CommandKind {
        match self {
            Self::Redrive { .. } => &REDRIVE,
            Self::Replay { .. } => &REPLAY,
            Self::Discard { .. } => &DISCARD,
            Self::Bury { .. } => &BURY,
            Self::Schedule { .. } => &SCHEDULE,
            Self::Pause => &PAUSE,
            Self::Resume => &RESUME,
            Self::Seek { .. } => &SEEK,
            Self::Skip { .. } => &SKIP,
            Self::Remove { .. } => &REMOVE,
            Self::Prune { .. } => &PRUNE,
            Self::PruneInbox { .. } => &PRUNE_INBOX,
            Self::Rebase { .. } => &REBASE,
            Self::Erase { .. } => &ERASE,
        }
    }

    /// The word for it in the audit.
    pub fn name(&self) -> &'static str {
        self.kind().name
    }

    /// Whether it only counts.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Self::Pause | Self::Resume => false,
            Self::Redrive { dry_run }
            | Self::Replay { dry_run }
            | Self::Discard { dry_run, .. }
            | Self::Bury { dry_run, .. }
            | Self::Schedule { dry_run, .. }
            | Self::Seek { dry_run, .. }
            | Self::Skip { dry_run, .. }
            | Self::Remove { dry_run }
            | Self::Prune { dry_run, .. }
            | Self::PruneInbox { dry_run, .. }
            | Self::Rebase { dry_run, .. }
            | Self::Erase { dry_run } => *dry_run,
        }
    }

    /// What it is told, by the names of its [settings](CommandKind::settings) in JSON.
    pub fn told(&self) -> Map<String, Value> {
        let mut fields = as_fields(self);
        fields.remove(NAME);
        fields.remove(DRY_RUN);
        fields
    }

    /// The command of this kind that is told this.
    ///
    /// # Errors
    /// `Rejected` for a value that does not fit.
    pub fn from_told(kind: &CommandKind, mut told: Map<String, Value>, dry_run: bool) -> Result<Self> {
        told.insert(NAME.to_owned(), kind.name.into());
        if kind.takes_dry_run {
            told.insert(DRY_RUN.to_owned(), dry_run.into());
        }
        serde_json::from_value(Value::Object(told)).map_err(|error| Error::rejected(error.to_string()))
    }

    /// What a broker that keeps nothing but dead letters is to do: redrive them or not, and whether only to
    /// count.
    ///
    /// # Errors
    /// `Rejected` for what needs a log; `whose` names the broker.
    pub fn on_dead_letters(&self, whose: &str) -> Result<(bool, bool)> {
        match self {
            Self::Redrive { dry_run } => Ok((true, *dry_run)),
            Self::Discard { dry_run, .. } => Ok((false, *dry_run)),
            other => Err(Error::rejected(format!(
                "{whose} has no log to {}; it can redrive and discard dead letters",
                other.name()
            ))),
        }
    }
}

/// Where the JSON of a command has its name.
const NAME: &str = "command";
/// Where the JSON of a command says that it only counts.
const DRY_RUN: &str = "dry_run";

/// A place in the log, as an operator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seek {
    /// Before the oldest event.
    Beginning,
    /// After the newest event.
    End,
    /// Before the first event taken in at or after this time.
    Time(Timestamp),
}

impl fmt::Display for Seek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("beginning"),
            Self::End => f.write_str("end"),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// Reads `beginning`, `end` or a time.
impl FromStr for Seek {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "beginning" => Ok(Self::Beginning),
            "end" => Ok(Self::End),
            time => time.parse().map(Self::Time),
        }
    }
}

json_as_text!(Seek);
