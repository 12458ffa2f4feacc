//! What a doctor saw.

use serde_json::Value;

use crate::cli::folder::{Answer, Folder};

/// What the doctor said, as JSON.
pub(crate) struct Seen(Value);

/// Asks the doctor in this folder.
#[track_caller]
pub(crate) fn doctor(folder: &Folder, arguments: &[&str]) -> Seen {
    let answer = folder.run(&[&["doctor", "--output", "json"], arguments].concat());
    of(&answer)
}

/// Reads an answer; its exit code must fit what it says.
#[track_caller]
pub(crate) fn of(answer: &Answer) -> Seen {
    assert!(answer.code == 0 || answer.code == 1, "{} {}", answer.code, answer.stderr);
    let seen = answer.json();
    assert_eq!(answer.code == 1, seen["failures"].as_u64().unwrap() > 0, "{seen:#}");
    Seen(seen)
}

impl Seen {
    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.0["findings"].as_array().unwrap().iter()
    }

    /// The worst finding of this check.
    #[track_caller]
    fn of(&self, check: &str) -> &Value {
        let rank = |finding: &&Value| {
            ["ok", "warning", "failure"].iter().position(|word| finding["verdict"] == *word)
        };
        let found = self.findings().filter(|finding| finding["check"].as_str().unwrap().contains(check));
        found.max_by_key(rank).unwrap_or_else(|| panic!("nothing is said about {check}: {:#}", self.0))
    }

    /// This check must be ok.
    #[track_caller]
    pub(crate) fn ok(&self, check: &str) {
        assert_eq!(self.of(check)["verdict"], "ok", "{:#}", self.of(check));
    }

    /// Nothing may be worse than ok.
    #[track_caller]
    pub(crate) fn all_ok(&self) {
        let bad: Vec<_> = self.findings().filter(|finding| finding["verdict"] != "ok").collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }

    /// This check must have this verdict; answers how to mend it.
    #[track_caller]
    pub(crate) fn bad(&self, check: &str, verdict: &str) -> Mend {
        let finding = self.of(check);
        assert_eq!(finding["verdict"], verdict, "{finding:#}");
        Mend(finding["mend"].clone())
    }

    /// How to mend what this check says about this, among others.
    #[track_caller]
    pub(crate) fn about(&self, check: &str, what: &str) -> Mend {
        let is_it =
            |finding: &&Value| finding["check"] == check && finding["seen"].as_str().unwrap().contains(what);
        let found =
            self.findings().find(is_it).unwrap_or_else(|| panic!("nothing about {what}: {:#}", self.0));
        assert_ne!(found["verdict"], "ok");
        Mend(found["mend"].clone())
    }

    /// Everything as text.
    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }
}

/// How to mend something.
pub(crate) struct Mend(Value);

impl Mend {
    /// The statements, which there must be.
    #[track_caller]
    pub(crate) fn sql(&self) -> Vec<String> {
        let statements = self.0["sql"].as_array().unwrap_or_else(|| panic!("no SQL: {}", self.0));
        statements.iter().map(|statement| statement.as_str().unwrap().to_owned()).collect()
    }

    /// The command, which there must be.
    #[track_caller]
    pub(crate) fn command(&self) -> String {
        self.0["command"].as_str().unwrap_or_else(|| panic!("no command: {}", self.0)).to_owned()
    }

    /// The words, which there must be.
    #[track_caller]
    pub(crate) fn words(&self) -> String {
        self.0["words"].as_str().unwrap_or_else(|| panic!("no words: {}", self.0)).to_owned()
    }

    /// Runs the command by a shell in this folder, with our binary for `posthaste`.
    #[track_caller]
    pub(crate) fn run(&self, folder: &Folder, more: &str) {
        let command = self.command();
        let ours = match command.strip_prefix("posthaste ") {
            Some(arguments) => format!("{} {arguments} {more}", env!("CARGO_BIN_EXE_posthaste")),
            None => command.clone(),
        };
        // As the binary itself is run: with none of the settings of whoever runs the tests.
        let binary = folder.command(&[""; 0]);
        let mut run = std::process::Command::new("sh");
        run.arg("-c").arg(&ours).current_dir(folder.path(""));
        for (name, value) in binary.get_envs() {
            match value {
                Some(value) => run.env(name, value),
                None => run.env_remove(name),
            };
        }
        let done = run.output().unwrap();
        assert!(done.status.success(), "{ours}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
