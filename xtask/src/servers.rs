//! `servers up` and `servers down`: the servers of the tests, started by hand.

use posthaste_testservers::{Error, Interrupt, Kind, Result, Standing};

use crate::report::say;

/// Starts those of `kinds` that do not run yet, and prints an `export` line on stdout for each that is up.
///
/// # Errors
/// If one of them does not start; the lines of the others are printed all the same.
pub(crate) fn up(kinds: &[Kind], interrupt: &Interrupt) -> Result<()> {
    let Standing { running, lacking } = posthaste_testservers::up(kinds, interrupt)?;
    for (kind, url) in &running {
        say(&format!("export {}={url}", kind.variable()));
    }
    for (kind, error) in &lacking {
        eprintln!("{}: {error}", kind.name());
    }
    match lacking.len() {
        0 => Ok(()),
        count => Err(Error::failed(format!("{count} of the servers did not start"))),
    }
}

/// Ends what `servers up` started.
pub(crate) fn down() -> Result<()> {
    if !posthaste_testservers::down()? {
        eprintln!("nothing is up");
    }
    Ok(())
}
