//! What happened to one event.

use serde::{Deserialize, Serialize};

/// One thing that happened to an event, or is going to.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct HistoryDocument {
    /// When; absent where nobody wrote that down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What: *taken in*, *due*, *expires*, *failed first*, *next try*, *dead*, *delivered*, *discarded*, or the name of a command.
    pub what: String,
    /// In which lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Who gave the command, and from where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why, or to how many events at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether the record does not name the event: the command was about such events, and this may have been one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe: bool,
}
