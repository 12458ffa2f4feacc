//! `servers up` and `servers down`: the same servers by hand.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Doing as _, Error, Result};
use crate::interrupt::Interrupt;
use crate::run::Run;
use crate::server::port_of;
use crate::{Fleet, Kind};

/// The servers that stay up between two commands.
#[derive(Debug)]
pub struct Standing {
    /// Each server that answers, with its URL.
    pub running: Vec<(Kind, String)>,
    /// Each server that does not, with the reason.
    pub lacking: Vec<(Kind, Error)>,
}

/// Starts those of `kinds` that do not run yet.
///
/// # Errors
/// When interrupted, or if the run's folder cannot be used. A server that does not start is in [`Standing::lacking`].
pub fn up(kinds: &[Kind], interrupt: &Interrupt) -> Result<Standing> {
    let (run, is_new, mut running) = open(interrupt)?;
    let run = Arc::new(run);
    let missing: Vec<Kind> =
        kinds.iter().copied().filter(|kind| !running.iter().any(|(up, _)| up == kind)).collect();
    let postgres = running.iter().find(|(kind, _)| *kind == Kind::Postgres).map(|(_, url)| url.clone());
    let started = Fleet::start(&missing, &run, postgres.as_deref());
    let fleet = match started {
        Ok(fleet) => fleet,
        Err(error) => {
            if let (true, Some(run)) = (is_new, Arc::into_inner(run)) {
                run.end()?;
            }
            return Err(error);
        }
    };
    running.extend(fleet.servers.iter().map(|server| (server.kind(), server.url())));
    let lines: String = running.iter().map(|(kind, url)| format!("{} {url}\n", kind.name())).collect();
    fs::write(urls_file(&run), lines).doing("remember what runs")?;

    Ok(Standing { running, lacking: fleet.lacking })
}

/// Ends what [`up`] started, and tells whether there was anything.
///
/// # Errors
/// If a process does not end or a folder cannot be removed.
pub fn down() -> Result<bool> {
    Run::end_standing()
}

/// Servers that answer, each with its URL.
type Running = Vec<(Kind, String)>;

/// The standing run, whether it is new, and what answers in it. A run whose servers died with the machine
/// begins again.
fn open(interrupt: &Interrupt) -> Result<(Run, bool, Running)> {
    let (run, is_new) = Run::standing(interrupt)?;
    let remembered = fs::read_to_string(urls_file(&run)).unwrap_or_default();
    let running: Running = remembered.lines().filter_map(parse).collect();
    if running.iter().all(|(_, url)| is_listening(url)) {
        return Ok((run, is_new, running));
    }
    eprintln!("some of the servers that were up are gone: starting anew");
    run.end()?;
    let (run, is_new) = Run::standing(interrupt)?;
    Ok((run, is_new, Vec::new()))
}

fn parse(line: &str) -> Option<(Kind, String)> {
    let (name, url) = line.split_once(' ')?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
    Some((kind, url.to_owned()))
}

fn is_listening(url: &str) -> bool {
    port_of(url).is_some_and(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
}

fn urls_file(run: &Run) -> PathBuf {
    run.folder().join("urls")
}
