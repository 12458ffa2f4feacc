//! A running `posthaste serve`.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http_api::client::{Client, DEADLINE};

/// A running server; dropping it kills it.
pub(crate) struct Process {
    /// Asks it with the key that lies in its folder.
    pub(crate) client: Client,
    /// What it printed when it started.
    pub(crate) welcome: String,
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Shows its log, so that the server never waits for a full pipe.
    _log: JoinSet<()>,
}

impl Process {
    /// The command that serves in this folder on a free port.
    pub(crate) fn command(folder: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.arg("serve").current_dir(folder).env_clear();
        command.env("POSTHASTE__SERVER__LISTEN", "127.0.0.1:0").env("POSTHASTE_ENV", "production");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Serves in this folder, and waits for the welcome.
    pub(crate) async fn start(folder: &Path) -> Self {
        let mut child = Self::command(folder).spawn().expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let mut welcome = String::new();
        while !welcome.contains("try it") {
            let said = line(&mut stderr).await.expect("the server says hello before it ends");
            // Before it, the log may say something.
            if !welcome.is_empty() || said.starts_with("posthaste ") {
                welcome += &said;
                welcome += "\n";
            } else {
                eprintln!("{said}");
            }
        }
        let mut log = JoinSet::new();
        log.spawn(async move {
            while let Ok(Some(said)) = stderr.next_line().await {
                eprintln!("{said}");
            }
        });
        let address = welcome.split("http://").nth(1).and_then(|rest| rest.lines().next());
        let address =
            address.and_then(|text| text.trim().parse().ok()).expect("the welcome says where it listens");
        let key = std::fs::read_to_string(folder.join("posthaste.key")).ok();
        let client = Client { address, key: key.map(|key| key.trim().to_owned()) };
        Self { client, welcome, child, stdout, _log: log }
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> Option<String> {
        line(&mut self.stdout).await
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it still runs").to_string();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().await;
        assert!(sent.expect("sh is there").success());
    }

    /// Waits until it has ended; a hang fails the test.
    pub(crate) async fn ended(mut self) -> ExitStatus {
        timeout(DEADLINE, self.child.wait()).await.expect("it ends in time").expect("it can be waited for")
    }

    /// Ends it as a crash would.
    pub(crate) async fn killed(mut self) {
        self.child.kill().await.expect("it can be killed");
    }
}

async fn line(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>) -> Option<String> {
    timeout(DEADLINE, lines.next_line()).await.expect("a line comes in time").expect("it is text")
}
