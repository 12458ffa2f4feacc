//! Waits for commands that a run started.

use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Doing as _, Error, Result};
use crate::interrupt::Interrupt;

/// Long enough for a whole build on a slow machine. No command may hang forever.
const WITHIN: Duration = Duration::from_secs(60 * 60);

/// Waits until a child ends. On an interrupt it asks the child's process group to end; the run's sweep ends the rest.
///
/// # Errors
/// On an interrupt, and if the child does not end within an hour.
pub fn wait(child: &mut Child, interrupt: &Interrupt) -> Result<ExitStatus> {
    let ended = interrupt.wait_for(WITHIN, || child.try_wait().doing("wait for a command"));
    match ended {
        Ok(Some(status)) => Ok(status),
        other => {
            // It may have ended in this moment.
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
            other?;
            Err(Error::failed(format!("ended after {WITHIN:?}")))
        }
    }
}

/// Returns the last `count` lines of a text.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_end_of_the_text() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 5), "a");
        assert_eq!(tail("", 5), "");
    }
}
