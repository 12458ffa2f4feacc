//! A folder of its own for every test, and the binary in it.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before the test fails.
const DEADLINE: Duration = Duration::from_secs(30);
/// Nobody listens here: a port that only the system's own services may use.
const NOBODY: &str = "127.0.0.1:9";

/// A folder in which the binary is run.
pub(crate) struct Folder(TempDir);

/// What the binary answered.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    /// The names of everything in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The binary with these arguments, with none of the settings of whoever runs the tests.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("POSTHASTE"));
        for (name, _) in ours {
            command.env_remove(name);
        }
        command
            .current_dir(self.0.path())
            .env("POSTHASTE__SERVER__LISTEN", NOBODY)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Answer {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs the binary on a terminal of its own and answers all that it shows there; `None`, said on stderr,
    /// without `script`.
    pub(crate) fn on_terminal(&self, trial: &str, arguments: &[&str]) -> Option<String> {
        let binary = self.command(arguments);
        let words = std::iter::once(binary.get_program()).chain(binary.get_args());
        let quoted = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
        let line = words.map(quoted).collect::<Vec<_>>().join(" ");
        let mut script = Command::new("script");
        // The same environment as every other run of the binary.
        for (name, value) in binary.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        script
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        match script.current_dir(self.0.path()).stdin(Stdio::null()).output() {
            Ok(output) => Some(String::from_utf8(output.stdout).unwrap().replace('\r', "")),
            Err(error) => {
                crate::http_process::skip::say(trial, &format!("script cannot be run: {error}"));
                None
            }
        }
    }

    pub(crate) fn run_with_stdin(&self, arguments: &[&str], stdin: &[u8]) -> Answer {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        // The child may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        child.wait_with_output().unwrap().into()
    }

    /// Runs the binary, which must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Answer {
        let answer = self.run(arguments);
        assert_eq!(answer.code, 0, "{arguments:?}: {}", answer.stderr);
        answer
    }

    /// Runs the binary with `--output json`, which must succeed with one document.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.ok(&[arguments, &["--output", "json"]].concat()).json()
    }

    /// Publishes this payload and answers the event's id.
    pub(crate) fn publish(&self, event_type: &str, payload: &str) -> String {
        self.ok(&["publish", "--type", event_type, "--data", payload]).text().trim().to_owned()
    }

    /// Runs SQL on the embedded store.
    pub(crate) fn sql(&self, statement: &str) {
        rusqlite::Connection::open(self.path("posthaste.db")).unwrap().execute_batch(statement).unwrap();
    }
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Everything on stdout as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The exit code and, on stderr, every one of these texts; nothing on stdout. The error may come through
    /// a server.
    pub(crate) fn assert_failed(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.stderr);
        let first = self.stderr.lines().find(|line| !line.starts_with("through http://"));
        assert!(first.is_some_and(|line| line.starts_with("error: ")), "{}", self.stderr);
        assert_eq!(self.text(), "");
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not in {}", self.stderr);
        }
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let code = output.status.code().expect("it ended by itself");
        Self { code, stdout: output.stdout, stderr: String::from_utf8(output.stderr).unwrap() }
    }
}

/// A process that runs until it is told to stop, and is killed if the test fails before.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// The exit code, once it has ended.
    pub(crate) fn code(&mut self) -> i32 {
        eventually("the process ends", || self.0.try_wait().unwrap()).code().expect("it ended by itself")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks until there is an answer; fails the test at the deadline.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited too long until {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
