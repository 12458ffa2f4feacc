//! `cargo xtask test`: everything that must hold, in the order in which failures are cheapest to learn.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::features::feature_checks;
use crate::interrupt::Interrupt;
use crate::report::{Skipped, Sum, say, say_part};
use crate::run::Run;
use crate::servers::{Fleet, Kind};
use crate::steps::{cargo, run_step};
use crate::trials::Trials;

/// What the tests ask for by `POSTHASTE_TEST_…`. A new server is started for them by adding it here.
const SERVERS: &[Kind] = &Kind::ALL;

/// Runs the whole check; the answer tells whether nothing failed.
pub(crate) fn test(interrupt: &Interrupt) -> Result<bool> {
    let run = Arc::new(Run::private(interrupt)?);
    let mut check = WholeCheck { run, sum: Sum::default(), failed: Vec::new(), skipped: Skipped::default() };
    check.look_at_the_code()?;
    check.run_the_tests()?;
    check.look_at_the_docs()?;
    check.look_at_the_worktree()?;

    let WholeCheck { run, sum, failed, skipped } = check;
    // The last line comes when everything has ended.
    drop(run);
    say_part(&skipped.to_string());
    // Once more where one looks first: what it said stands far above.
    for name in failed {
        say(&format!("FAILED: {name}"));
    }
    say(&sum.to_string());
    Ok(sum.failed == 0)
}

/// True where a machine looks at the answer and nobody chose to be without a server.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Whether it is no failure to be without this server, for this reason.
pub(crate) fn may_lack(kind: Kind, error: &Error) -> bool {
    matches!(error, Error::Unavailable(_)) && (!is_ci() || kind.may_lack())
}

struct WholeCheck {
    run: Arc<Run>,
    sum: Sum,
    failed: Vec<String>,
    skipped: Skipped,
}

impl WholeCheck {
    fn look_at_the_code(&mut self) -> Result<()> {
        self.step("format", cargo(&["fmt", "--all", "--check", "--", "--color", "never"])?)?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
        self.step("clippy", cargo(&clippy)?)?;
        let Some(metadata) =
            self.step("features", cargo(&["metadata", "--no-deps", "--format-version", "1"])?)?
        else {
            return Ok(());
        };
        for check in feature_checks(&metadata)? {
            let arguments: Vec<&str> = check.arguments.iter().map(String::as_str).collect();
            self.step(&check.name, cargo(&arguments)?)?;
        }
        Ok(())
    }

    fn run_the_tests(&mut self) -> Result<()> {
        // Built first: servers need not wait for compilers.
        if self.step("build the tests", cargo(&["test", "--workspace", "--no-run"])?)?.is_none() {
            return Ok(());
        }
        let fleet = Fleet::start(SERVERS, &self.run, None)?;
        self.count_servers(&fleet);
        self.run_tests("tests", &fleet, &["test", "--workspace", "--no-fail-fast"])?;
        // A build of its own, and only for this: everything else runs on a client without OpenSSL, as users have it.
        let with_tls =
            ["test", "--workspace", "--features", "posthaste/kafka-tls", "--test", "kafka", "--", "tls::"];
        self.run_tests("tests of Kafka with TLS", &fleet, &with_tls)
    }

    fn run_tests(&mut self, name: &str, fleet: &Fleet, arguments: &[&str]) -> Result<()> {
        let mut tests = cargo(arguments)?;
        tests.envs(fleet.environment());
        say_part(&named(name));
        let ended = run_step(&self.run, tests)?;
        let mut trials = Trials::read(&ended.stdout, &ended.stderr);
        if is_ci() {
            trials.demand_servers();
        }
        // A test binary that died has printed no result.
        trials.sum.failed += usize::from(!ended.ok && trials.sum.failed == 0);
        let ok = trials.sum.failed == 0;
        say(&format!("{} {}", verdict(ok, ended.took), trials.sum));
        if !ok {
            say(&if trials.failures.is_empty() { ended.last_words() } else { trials.failures.clone() });
        }
        self.sum.add(trials.sum);
        let known = self.failed.len();
        self.failed.extend(trials.failed());
        if !ok && self.failed.len() == known {
            self.failed.push(format!("{name}: a test binary that died"));
        }
        for (name, why) in trials.skipped() {
            self.skipped.add(name, why);
        }
        Ok(())
    }

    fn look_at_the_docs(&mut self) -> Result<()> {
        // Binaries have no readers of their docs, and one is named like the library.
        let mut doc = cargo(&["doc", "--workspace", "--lib", "--all-features", "--no-deps"])?;
        doc.env("RUSTDOCFLAGS", "--deny warnings");
        self.step("docs", doc)?;
        Ok(())
    }

    /// Generated files (Cargo.lock among them) are as committed, and the tests left nothing in the source tree.
    /// Only in CI: elsewhere somebody may be at work in it.
    fn look_at_the_worktree(&mut self) -> Result<()> {
        let root = crate::run::workspace()?;
        if !is_ci() || !root.join(".git").exists() {
            return Ok(());
        }
        let mut status = Command::new("sh");
        let unchanged = "git status --porcelain && git diff && test -z \"$(git status --porcelain)\"";
        status.args(["-c", unchanged]).current_dir(root);
        self.step("worktree unchanged", status)?;
        Ok(())
    }

    /// Runs one step and counts it; its stdout if it went well.
    fn step(&mut self, name: &str, command: Command) -> Result<Option<String>> {
        say_part(&named(name));
        let ended = run_step(&self.run, command)?;
        say(&verdict(ended.ok, ended.took));
        if ended.ok {
            self.sum.passed += 1;
            return Ok(Some(ended.stdout));
        }
        self.sum.failed += 1;
        self.failed.push(name.to_owned());
        say(&ended.last_words());
        Ok(None)
    }

    /// A server that broke is a failure. One that cannot be had is skipped, in CI a failure too where it is demanded.
    fn count_servers(&mut self, fleet: &Fleet) {
        for server in &fleet.servers {
            say(&format!("{}ok", named(&format!("server {}", server.kind().name()))));
            self.sum.passed += 1;
        }
        for (kind, error) in &fleet.lacking {
            let name = format!("server {}", kind.name());
            let may_lack = may_lack(*kind, error);
            say(&format!("{}{}: {error}", named(&name), if may_lack { "skipped" } else { "FAILED" }));
            if may_lack {
                self.sum.skipped += 1;
                self.skipped.add(&name, &error.to_string());
            } else {
                self.sum.failed += 1;
                self.failed.push(name);
            }
        }
    }
}

fn named(step: &str) -> String {
    format!("{step:.<60} ")
}

fn verdict(ok: bool, took: Duration) -> String {
    format!("{} {:.1} s", if ok { "ok" } else { "FAILED" }, took.as_secs_f32())
}
