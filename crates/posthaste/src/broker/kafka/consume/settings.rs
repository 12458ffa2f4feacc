//! How events are consumed, from the URL.
//!
//! | in the URL | default | means |
//! |---|---|---|
//! | `declare` | `true` | `false`: a group's own topics are not created, they must be there |
//! | `from` | `start` | where a new group begins: `start`, with what the topic holds, or `now` |
//! | `session_timeout` | `30s` | after so long without a sign of life a member's partitions go to others |
//! | `rebalance_wait` | `10s` | how long others wait for what a member has in hand of a partition that goes to them |
//! | `hold_max` | `5m` | with order per key: how long a failing event may hold its key in the process |

use std::time::Duration;

use posthaste_core::{Error, Result};

use crate::broker::address::YES_NO;
use crate::broker::kafka::settings::URL;
use crate::url::duration;

const SESSION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30 * 60));
const REBALANCE_WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// Where a group begins that is new on a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beginning {
    /// With everything that the topic holds: what was published before the group was there is not missed.
    #[default]
    Start,
    /// With what comes from now on.
    Now,
}

/// How events are consumed.
#[derive(Clone, Debug)]
pub(in crate::broker::kafka) struct Consuming {
    pub(in crate::broker::kafka) declare: bool,
    pub(in crate::broker::kafka) from: Beginning,
    pub(in crate::broker::kafka) session_timeout: Duration,
    pub(in crate::broker::kafka) rebalance_wait: Duration,
    pub(in crate::broker::kafka) hold_max: Duration,
}

impl Default for Consuming {
    fn default() -> Self {
        Self {
            declare: true,
            from: Beginning::Start,
            session_timeout: Duration::from_secs(30),
            rebalance_wait: Duration::from_secs(10),
            hold_max: Duration::from_secs(300),
        }
    }
}

impl Consuming {
    /// Takes in one setting of the URL.
    pub(in crate::broker::kafka) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        const FROM: [(&str, Beginning); 2] = [("start", Beginning::Start), ("now", Beginning::Now)];
        match name {
            "declare" => self.declare = URL.one_of(name, value, &YES_NO)?,
            "from" => self.from = URL.one_of(name, value, &FROM)?,
            "session_timeout" => self.session_timeout = URL.span(name, value)?,
            "rebalance_wait" => {
                self.rebalance_wait =
                    URL.read(name, value, "a duration such as 0s or 10s", duration(value))?;
            }
            "hold_max" => self.hold_max = URL.span(name, value)?,
            _ => return Err(URL.unknown(name)),
        }
        Ok(())
    }

    pub(in crate::broker::kafka) fn check(&self) -> Result<()> {
        if self.session_timeout < SESSION.0 || self.session_timeout > SESSION.1 {
            let (least, most) = SESSION;
            return Err(Error::config(format!("session_timeout must be {least:?} to {most:?}")));
        }
        if self.rebalance_wait > REBALANCE_WAIT_MAX {
            return Err(Error::config(format!("rebalance_wait must be at most {REBALANCE_WAIT_MAX:?}")));
        }
        Ok(())
    }
}
