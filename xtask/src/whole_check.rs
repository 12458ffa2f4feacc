//! `cargo xtask test`: everything that must hold, in the order in which failures are cheapest to learn.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::binaries::{compiler_libraries, test_binaries};
use crate::features::feature_checks;
use crate::flaky::Flaky;
use crate::report::{Skipped, Sum, say, say_part};
use crate::steps::{Ended, cargo, run_step};
use crate::trials::Trials;
use crate::{scratch, words};
use posthaste_testservers::{Error, Fleet, Interrupt, Kind, Result, Run};

/// What the tests ask for by `POSTHASTE_TEST_…`. A new server is started for them by adding it here.
const SERVERS: &[Kind] = &Kind::ALL;

/// Runs the whole check; the answer tells whether nothing failed.
pub(crate) fn test(interrupt: &Interrupt) -> Result<bool> {
    let run = Arc::new(Run::private(interrupt)?);
    let mut check = WholeCheck {
        run,
        sum: Sum::default(),
        failed: Vec::new(),
        skipped: Skipped::default(),
        flaky: Flaky::default(),
    };
    check.look_at_the_code()?;
    check.run_the_tests()?;
    check.look_at_the_docs()?;
    check.look_at_the_worktree()?;

    let WholeCheck { run, mut sum, mut failed, skipped, flaky } = check;
    // The last line comes when everything has ended.
    drop(run);
    say_part(&skipped.to_string());
    say_part(&flaky.to_string());
    if flaky.are_too_many() {
        sum.failed += 1;
        failed.push(format!("more than {} flaky tests", Flaky::ALLOWED));
    }
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
    flaky: Flaky,
}

impl WholeCheck {
    fn look_at_the_code(&mut self) -> Result<()> {
        self.step("format", cargo(&["fmt", "--all", "--check", "--", "--color", "never"])?)?;
        self.look_at_the_words()?;
        // With all features, as the tests are built: one set of compiled dependencies serves both.
        let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"];
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
        self.compile_the_scratch_patch()
    }

    /// The patch that adds a command and a filter field touches only the files that the guide names, and
    /// compiles.
    fn compile_the_scratch_patch(&mut self) -> Result<()> {
        let name = "a new command and filter field";
        let (root, copy) = (posthaste_testservers::workspace()?, self.run.folder().join("scratch"));
        if let Err(error) = scratch::apply(&root, &copy) {
            say(&format!("{}FAILED: {error}", named(name)));
            self.count_step(name, false);
            return Ok(());
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        // With all features, so that the dependencies are those that clippy compiled.
        let mut check = cargo(&["check", "-p", "posthaste-server", "--all-features"])?;
        check.current_dir(copy).env("CARGO_TARGET_DIR", target);
        self.step(name, check)?;
        Ok(())
    }

    fn look_at_the_words(&mut self) -> Result<()> {
        let (name, begun) = ("words", Instant::now());
        say_part(&named(name));
        let (ok, findings) = words::findings(None)?;
        say(&verdict(ok, begun.elapsed()));
        self.count_step(name, ok);
        findings.iter().for_each(|line| say(line));
        Ok(())
    }

    fn run_the_tests(&mut self) -> Result<()> {
        // Built first: servers need not wait for compilers.
        let build = ["test", "--workspace", "--all-features", "--no-run", "--message-format", "json"];
        let Some(messages) = self.step("build the tests", cargo(&build)?)? else { return Ok(()) };
        let binaries = test_binaries(&messages)?;
        let fleet = Fleet::start(SERVERS, &self.run, None)?;
        self.count_servers(&fleet);
        let libraries = compiler_libraries()?;
        for binary in &binaries {
            self.run_tests(&binary.name, &|| {
                let mut command = binary.command(&libraries);
                command.envs(fleet.environment());
                command
            })?;
        }
        self.run_doc_tests()
    }

    /// Runs one test binary. A test that fails is run once more by itself.
    fn run_tests(&mut self, name: &str, command: &dyn Fn() -> Command) -> Result<()> {
        say_part(&named(&format!("tests {name}")));
        let ended = run_step(&self.run, command())?;
        let trials = self.read_trials(&ended);
        say(&format!("{} {}", verdict(trials.sum.failed == 0, ended.took), trials.sum));
        if trials.sum.failed > 0 {
            say(&if trials.failures.is_empty() { ended.last_words() } else { trials.failures.clone() });
        }
        let again = self.run_again(&trials, command)?;
        self.count(name, trials, &again);
        Ok(())
    }

    /// Runs each failed test again, alone, and answers the names of those that pass then.
    ///
    /// Many failures in one binary are not flaky tests but one broken thing; then nothing runs again.
    fn run_again(&mut self, trials: &Trials, command: &dyn Fn() -> Command) -> Result<Vec<String>> {
        let failed: Vec<String> = trials.failed().collect();
        if failed.len() > Flaky::ALLOWED + 1 {
            return Ok(Vec::new());
        }
        let mut passed = Vec::new();
        for name in failed {
            say_part(&named(&format!("again {name}")));
            let mut alone = command();
            alone.args(["--exact", &name]);
            let ended = run_step(&self.run, alone)?;
            let sum = self.read_trials(&ended).sum;
            let ok = ended.ok && sum.passed == 1;
            say(&verdict(ok, ended.took));
            if ok {
                self.flaky.add(&name, trials.failure_of(&name));
                passed.push(name);
            } else {
                say(&ended.last_words());
            }
        }
        Ok(passed)
    }

    fn read_trials(&self, ended: &Ended) -> Trials {
        let mut trials = Trials::read(&ended.stdout, &ended.stderr);
        if is_ci() {
            trials.demand_servers();
        }
        // A test binary that died has printed no result.
        trials.sum.failed += usize::from(!ended.ok && trials.sum.failed == 0);
        trials
    }

    /// Adds the trials of one binary to the whole; those that passed when they ran again count as passed.
    fn count(&mut self, name: &str, trials: Trials, passed_again: &[String]) {
        let mut sum = trials.sum;
        sum.failed -= passed_again.len();
        sum.passed += passed_again.len();
        self.sum.add(sum);
        let known = self.failed.len();
        self.failed.extend(trials.failed().filter(|failed| !passed_again.contains(failed)));
        if sum.failed > 0 && self.failed.len() == known {
            self.failed.push(format!("{name}: a test binary that died"));
        }
        for (name, why) in trials.skipped() {
            self.skipped.add(name, why);
        }
    }

    fn run_doc_tests(&mut self) -> Result<()> {
        say_part(&named("tests in the docs"));
        let ended = run_step(&self.run, cargo(&["test", "--workspace", "--all-features", "--doc"])?)?;
        let trials = self.read_trials(&ended);
        say(&format!("{} {}", verdict(trials.sum.failed == 0, ended.took), trials.sum));
        if trials.sum.failed > 0 {
            say(&if trials.failures.is_empty() { ended.last_words() } else { trials.failures.clone() });
        }
        self.count("tests in the docs", trials, &[]);
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
        let root = posthaste_testservers::workspace()?;
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
        self.count_step(name, ended.ok);
        if ended.ok {
            return Ok(Some(ended.stdout));
        }
        say(&ended.last_words());
        Ok(None)
    }

    fn count_step(&mut self, name: &str, ok: bool) {
        if ok {
            self.sum.passed += 1;
        } else {
            self.sum.failed += 1;
            self.failed.push(name.to_owned());
        }
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
