//! The relay under test: a process, its stdout as the target that it publishes to, and signals.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste::table::Profile;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Stop;
use super::table::record_prefix;

/// After so many attempts an event is dead.
pub(super) const ATTEMPTS_MAX: u32 = 3;
/// How long the relay is to wait for an acknowledgement.
const TIMEOUT: Duration = Duration::from_millis(400);
/// How long it is to wait before the second attempt; twice that before the third.
pub(super) const BACKOFF: Duration = Duration::from_secs(2);
/// How often an idle relay looks at the table.
const POLL: Duration = Duration::from_millis(100);
const STDERR_LINES_KEPT: usize = 8;

/// How the relay is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// How many rows it may claim at once.
    pub(super) batch: u32,
    /// Whether it keeps the order of a key.
    pub(super) ordered: bool,
    /// Whether anybody reads what it publishes from the start.
    pub(super) is_heard: bool,
    /// Where it shows its metrics, if it is Posthaste's own.
    pub(super) metrics_port: Option<u16>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { batch: 50, ordered: false, is_heard: true, metrics_port: None }
    }
}

/// Which relay is under test.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// `posthaste relay`, by this program.
    Own(PathBuf),
    /// A command line with placeholders, for a shell.
    Other(String),
}

/// Where and on what the relay works.
pub(super) struct Place<'a> {
    pub(super) store: &'a str,
    pub(super) profile: &'a Profile,
    pub(super) lease: Duration,
    /// A folder for configuration files.
    pub(super) folder: &'a std::path::Path,
    /// Which environment variables are settings of `posthaste`.
    pub(super) is_setting: fn(&str) -> bool,
}

/// A relay that runs.
pub(super) struct Running {
    child: Child,
    ear: Arc<Ear>,
    stderr: Arc<Mutex<VecDeque<String>>>,
}

/// What the relay published, as its lines came.
#[derive(Default)]
struct Ear {
    listens: AtomicBool,
    lines: Mutex<Vec<String>>,
}

impl Subject {
    /// Starts the relay.
    pub(super) fn start(&self, place: &Place<'_>, settings: Settings) -> Result<Running, Stop> {
        let mut command = match self {
            Self::Own(program) => own(program, place, settings)?,
            Self::Other(line) => other(line, place, settings),
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: whatever a shell starts gets the signals too.
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| Stop(format!("the relay cannot be started: {error}")))?;
        let ear = Arc::new(Ear { listens: AtomicBool::new(settings.is_heard), lines: Mutex::default() });
        let stderr = Arc::new(Mutex::new(VecDeque::new()));
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            listen(out, Arc::clone(&ear));
            keep_last(err, Arc::clone(&stderr));
        }
        Ok(Running { child, ear, stderr })
    }
}

/// The configuration of Posthaste's own relay and of its operators' verbs, in a file; the store's address is in the environment.
pub(super) fn configured(
    program: &std::path::Path,
    place: &Place<'_>,
    settings: Settings,
) -> Result<Command, Stop> {
    let Place { profile, lease, .. } = place;
    let mut text = format!(
        "[store]\nengine = \"table\"\nprofile = \"{}\"\ntable = \"{}\"\nprefix = \"{}\"\n[store.columns]\n",
        profile.name(),
        profile.table,
        record_prefix(profile)?
    );
    let written = "writing to a string does not fail";
    for (column, name) in &profile.columns {
        writeln!(text, "{} = \"{name}\"", column.name()).expect(written);
    }
    let states = &profile.states;
    let words = [
        ("pending", &states.pending),
        ("delivering", &states.delivering),
        ("delivered", &states.delivered),
        ("dead", &states.dead),
    ];
    text.push_str("[store.states]\n");
    for (key, word) in words {
        writeln!(text, "{key} = \"{}\"", word.as_str()).expect(written);
    }
    write!(
        text,
        "[relay]\nlease = \"{}ms\"\npoll_max = \"{}ms\"\n[lanes.main]\nto = \"stdout:\"\norder = \"{}\"\nwindow = {}\n\
         timeout = \"{}ms\"\nretry = {{ first = \"{}ms\", factor = 2.0, attempts = {ATTEMPTS_MAX}, jitter = \"none\" }}\n",
        lease.as_millis(),
        POLL.as_millis(),
        if settings.ordered { "key" } else { "none" },
        settings.batch,
        TIMEOUT.as_millis(),
        BACKOFF.as_millis(),
    )
    .expect(written);
    if let Some(port) = settings.metrics_port {
        writeln!(text, "[server]\nadmin_listen = \"127.0.0.1:{port}\"").expect(written);
    }
    // Each has its own: whoever starts must not read what is being written.
    let file = place.folder.join(format!("{:016x}.toml", fastrand::u64(..)));
    std::fs::write(&file, text).map_err(|error| Stop(format!("write {}: {error}", file.display())))?;
    let mut command = Command::new(program);
    // Whatever is set for another relay would count more than the file: that one may be of a table that people use.
    for (name, _) in std::env::vars_os().filter(|(name, _)| (place.is_setting)(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command.arg("--config").arg(file).env("POSTHASTE__STORE__URL", place.store);
    Ok(command)
}

fn own(program: &std::path::Path, place: &Place<'_>, settings: Settings) -> Result<Command, Stop> {
    let mut command = configured(program, place, settings)?;
    command.arg("relay");
    Ok(command)
}

/// What a command line may name, and what stands for it.
fn placeholders(place: &Place<'_>, settings: Settings) -> [(&'static str, String); 9] {
    let Place { store, profile, lease, .. } = place;
    let ms = |duration: Duration| format!("{}ms", duration.as_millis());
    [
        ("store", (*store).to_owned()),
        ("table", profile.table.to_string()),
        ("profile", profile.name().to_owned()),
        ("lease", ms(*lease)),
        ("poll", ms(POLL)),
        ("batch", settings.batch.to_string()),
        ("attempts", ATTEMPTS_MAX.to_string()),
        ("backoff", ms(BACKOFF)),
        ("order", if settings.ordered { "key" } else { "none" }.to_owned()),
    ]
}

/// Any other relay: its placeholders are filled in, and it also gets the environment of the reference relay.
fn other(line: &str, place: &Place<'_>, settings: Settings) -> Command {
    let all = placeholders(place, settings);
    let mut filled = line.to_owned();
    for (name, value) in &all {
        filled = filled.replace(&format!("{{{name}}}"), &quoted(value));
    }
    let mut command = Command::new("sh");
    command.args(["-c", &filled]);
    let [(_, store), (_, table), _, (_, lease), (_, poll), (_, batch), (_, attempts), (_, backoff), _] = all;
    for (name, value) in [
        ("STORAGE_TYPE", storage_type(&store).to_owned()),
        ("STORAGE_URL", store),
        ("STORAGE_TABLE_NAME", table),
        ("PUBLISHER_TYPE", "stdout".to_owned()),
        ("LEASE_TIMEOUT", lease),
        ("POLL_INTERVAL", poll),
        ("BATCH_SIZE", batch),
        ("RETRY_MAX_ATTEMPTS", attempts),
        ("RETRY_BASE_DELAY", backoff),
        ("RETRY_JITTER", "0".to_owned()),
    ] {
        command.env(name, value);
    }
    command
}

/// What the reference relay calls this kind of database.
fn storage_type(url: &str) -> &str {
    match url.split(':').next() {
        Some("mariadb") => "mysql",
        Some("postgresql") => "postgres",
        other => other.unwrap_or_default(),
    }
}

/// A word of a shell that means nothing but itself.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads lines as soon as, and as long as, it may listen.
fn listen(out: impl Read + Send + 'static, ear: Arc<Ear>) {
    std::thread::spawn(move || {
        while !ear.listens.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let mut out = BufReader::new(out);
        let mut line = Vec::new();
        // What a relay that was killed left of a line is nothing that anybody got.
        while out.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) && line.ends_with(b"\n") {
            lock(&ear.lines).push(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
    });
}

fn keep_last(err: impl Read + Send + 'static, kept: Arc<Mutex<VecDeque<String>>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(err).lines().map_while(Result::ok) {
            let mut kept = lock(&kept);
            kept.push_back(line.chars().take(300).collect());
            if kept.len() > STDERR_LINES_KEPT {
                kept.pop_front();
            }
        }
    });
}

impl Running {
    /// From now on somebody reads what it publishes.
    pub(super) fn hear(&self) {
        self.ear.listens.store(true, Ordering::Release);
    }

    /// Everything that it has published, line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        lock(&self.ear.lines).clone()
    }

    /// How often it has published the event with this id.
    pub(super) fn times(&self, id: &str) -> usize {
        lock(&self.ear.lines).iter().filter(|line| line.contains(id)).count()
    }

    /// At which line it first published the event with this id.
    pub(super) fn place_of(&self, id: &str) -> Option<usize> {
        lock(&self.ear.lines).iter().position(|line| line.contains(id))
    }

    /// What it said last on stderr.
    pub(super) fn said(&self) -> String {
        lock(&self.stderr).iter().cloned().collect::<Vec<_>>().join(" | ")
    }

    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended by itself in this moment.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// An end without a word.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Why it runs no more, if so.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("the relay ended by itself ({status}): {}", self.said()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that is stopped would not hear of anything else.
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_filled_in_and_nothing_in_it_is_taken_for_shell() {
        let profile = Profile::open_outbox();
        let folder = std::path::Path::new("/nowhere");
        let lease = Duration::from_secs(2);
        let place = Place { store: "x://a'b;$(c)", profile: &profile, lease, folder, is_setting: |_| true };
        let command = other("relay --to {store} -n {batch} {unknown}", &place, Settings::default());
        let line = command.get_args().last().unwrap().to_string_lossy().into_owned();
        assert_eq!(line, "relay --to 'x://a'\\''b;$(c)' -n '50' {unknown}");
    }
}
