//! `posthaste conformance`: the requirements of the open-outbox specification as runnable checks against a table and a relay.
//!
//! ```text
//! scene ──► a table of its own, with triggers that write down every move of every row
//!   │            ▲
//!   │            │ claims, outcomes
//!   └─ starts ─► relay (a process) ──► its stdout, which the scene reads, or does not
//! ```
//!
//! A scene (`scenes`) puts rows into the table, lets relays work on it, kills and stops them, and reports
//! what it found about its requirements. What holds for every move (`moves`) is judged after each scene. A
//! database is one file in `ground`. The kit touches nothing but tables of its own under random names.
//!
//! The kit is a crate of its own, because it works in each database with the bare client. It does not read
//! the configuration: the binary hands in a [`ConformanceStore`]. Relays and operators' verbs run as
//! processes of the current executable, so the program that calls [`run`] must be `posthaste` itself.

mod findings;
mod ground;
mod moves;
mod relay;
mod requirement;
mod scene;
mod scenes;
mod table;

use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::time::Duration;

use posthaste::table::Profile;
use posthaste_terminal::exit::{Code, Failure};
use posthaste_terminal::output;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;

use findings::{Findings, Outcome, Verdict};
use relay::Subject;
use scene::{Kit, SceneOf};

/// Why a scene could not go on.
#[derive(Debug)]
struct Stop(String);

/// What a check takes, as flags of the command line.
#[derive(Debug, clap::Args)]
pub struct ConformanceArgs {
    /// Check this relay instead of `posthaste relay`: a command line for sh in which {store}, {table}, {profile}, {lease},
    /// {poll}, {batch}, {attempts}, {backoff} and {order} are filled in; the environment of the reference relay is set as well
    #[arg(long, value_name = "COMMAND")]
    relay: Option<String>,
    /// The other relay does not print what it publishes: judge it by the table alone
    #[arg(long, requires = "relay")]
    unseen: bool,
    /// How long a claim lasts without a sign of life, in seconds: {lease}, and what the other relay must be set to
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    lease: u64,
    /// Only this requirement, like L3; may be given several times
    #[arg(long, value_name = "ID", value_parser = known)]
    only: Vec<String>,
    /// Make the tables without asking
    #[arg(long)]
    yes: bool,
}

/// Where the kit makes its tables, and of which kind they are.
#[derive(Debug)]
pub struct ConformanceStore {
    /// The address of the database; may hold a password.
    pub url: SecretString,
    /// The profile of the tables that are made.
    pub profile: Profile,
    /// Whether an environment variable of this name is a setting of `posthaste`. The relays and verbs that
    /// the kit starts do not inherit such variables, which could name another table.
    pub is_setting: fn(&str) -> bool,
}

fn known(id: &str) -> Result<String, String> {
    let is_known = requirement::ALL.iter().any(|one| one.id == id);
    if is_known { Ok(id.to_owned()) } else { Err("is not a requirement; they are P1 to X8".to_owned()) }
}

/// The whole report.
#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    relay: &'a str,
    profile: &'a str,
    checks: Vec<Verdict>,
}

/// Runs the checks and reports.
///
/// # Errors
/// When a requirement is not met, and when the database cannot be used.
pub async fn run(args: &ConformanceArgs, store: ConformanceStore, json: bool) -> Result<(), Failure> {
    let ConformanceStore { url, profile, is_setting } = store;
    if !args.yes {
        ask(&profile)?;
    }
    let program =
        std::env::current_exe().map_err(|error| Failure::other(format!("find this program: {error}")))?;
    let subject = args.relay.clone().map_or(Subject::Own(program.clone()), Subject::Other);
    let store = url.expose_secret().to_owned();
    let ground = ground::open(&store)
        .await
        .map_err(|Stop(why)| Failure::new(Code::Store, format!("open the store: {why}")))?;
    let folder = Folder::make()?;
    let kit = Kit {
        ground,
        store,
        profile,
        subject,
        program,
        is_setting,
        lease: Duration::from_secs(args.lease),
        folder: folder.0.clone(),
        sees: !args.unseen,
        made: std::sync::Mutex::default(),
    };
    let only: Vec<&str> = args.only.iter().map(String::as_str).collect();
    let played = tokio::select! {
        played = play(&kit, &only) => played,
        _ = tokio::signal::ctrl_c() => Err(Failure::other("check everything: interrupted")),
    };
    kit.remove_what_is_left().await;
    report(&kit, played?.verdicts(&only, kit.is_own()), json)
}

/// Tables are made in somebody's database: on a terminal somebody can say no.
fn ask(profile: &Profile) -> Result<(), Failure> {
    let names = table::NAMES;
    output::note(&format!(
        "makes tables of the profile {} called {names}… in this database, and removes them at the end; no other table is touched",
        profile.name()
    ));
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    // Nobody reading stderr is no reason to fail.
    let _ = write!(std::io::stderr(), "Go on? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    if read.is_ok() && answer.trim().eq_ignore_ascii_case("y") {
        return Ok(());
    }
    Err(Failure::usage("check everything: nobody agreed; answer y, or say --yes"))
}

async fn play(kit: &Kit, only: &[&str]) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    let is_wanted = |scene: &SceneOf| only.is_empty() || scene.about.iter().any(|id| only.contains(id));
    for scene in scenes::ALL.iter().filter(|scene| is_wanted(scene)) {
        let spinner = output::spinner(scene.name);
        let played = kit.play(scene).await;
        spinner.finish_and_clear();
        findings.take_in(played.map_err(|Stop(why)| {
            Failure::new(Code::Store, format!("set the scene {}: {why}", scene.name))
        })?);
    }
    Ok(findings)
}

fn report(kit: &Kit, checks: Vec<Verdict>, json: bool) -> Result<(), Failure> {
    let count = |outcome: Outcome| checks.iter().filter(|verdict| verdict.result == outcome).count();
    let (ok, failed) = (count(Outcome::Ok), count(Outcome::Failed));
    let (by_document, not_decided) = (count(Outcome::ByDocument), count(Outcome::NotDecided));
    let relay = match &kit.subject {
        Subject::Own(_) => "posthaste relay",
        Subject::Other(line) => line,
    };
    let profile = kit.profile.name();
    if json {
        output::json(&Report { ok: failed == 0, relay, profile, checks })?;
    } else {
        for Verdict { id, requirement, result, evidence } in &checks {
            output::line(&format!("{id:<4}{:<12} {requirement}", result.word()))?;
            output::line(&format!("                {evidence}"))?;
        }
        output::line(&format!(
            "{ok} ok, {failed} failed, {by_document} by document, {not_decided} not decided ({relay}, profile {profile})"
        ))?;
    }
    if failed > 0 {
        return Err(Failure::other(format!("meet {failed} of the requirements")));
    }
    Ok(())
}

/// A folder for the configuration of the relays, gone with this.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("{}{:016x}", table::NAMES, fastrand::u64(..)));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Failure::other(format!("make the folder {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is a few lines of configuration without a secret.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
