//! A run: one random name, one folder, everything started under it, and the certainty that nothing of it stays.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::{Doing as _, Error, Result};
use crate::interrupt::Interrupt;
use crate::processes;

/// Runs that end with the process that began them.
const PRIVATE: &str = "run-";
/// The run of `servers up`, which lasts until `servers down`.
const STANDING: &str = "up-";
/// Held by the process that began a private run, for as long as it lives.
const ALIVE: &str = "alive";

/// What a task starts, in one folder and under one name that no other run has.
#[derive(Debug)]
pub struct Run {
    name: String,
    folder: PathBuf,
    interrupt: Interrupt,
    life: Life,
}

#[derive(Debug)]
enum Life {
    /// Ends with us.
    Private(Private),
    /// Outlives us; the lock keeps a second `servers up` or `down` waiting while we work on it.
    Standing { _exclusive: File },
}

/// What makes a private run end with us: others see the lock, the guard sees the end of its standard input.
#[derive(Debug)]
struct Private {
    _alive: File,
    guard: Child,
}

impl Run {
    /// Begins a run that ends when it is dropped, and within seconds of our end if we are killed.
    ///
    /// Ends what dead runs left behind; living ones are not touched.
    pub fn private(interrupt: &Interrupt) -> Result<Self> {
        let _exclusive = lock("lock")?;
        for (name, folder) in runs(PRIVATE)? {
            let unowned = File::open(folder.join(ALIVE)).map_or(true, |alive| alive.try_lock().is_ok());
            if unowned {
                sweep(&name, &folder)?;
            }
        }
        let (name, folder) = make_folder(PRIVATE)?;
        let alive = File::create(folder.join(ALIVE)).doing("create a lock file")?;
        alive.lock().doing("lock a file of our own")?;
        let guard = start_guard(&name, &folder)?;
        Ok(Self {
            name,
            folder,
            interrupt: interrupt.clone(),
            life: Life::Private(Private { _alive: alive, guard }),
        })
    }

    /// The run of `servers up` if there is one, else a new one. The second value tells whether it is new.
    pub(crate) fn standing(interrupt: &Interrupt) -> Result<(Self, bool)> {
        let exclusive = lock("up.lock")?;
        let existing = runs(STANDING)?.into_iter().next();
        let is_new = existing.is_none();
        let (name, folder) = existing.map_or_else(|| make_folder(STANDING), Ok)?;
        Ok((
            Self {
                name,
                folder,
                interrupt: interrupt.clone(),
                life: Life::Standing { _exclusive: exclusive },
            },
            is_new,
        ))
    }

    /// Ends everything of this run, also its standing servers, and removes its folders.
    pub(crate) fn end(self) -> Result<()> {
        sweep(&self.name, &self.folder)
    }

    /// Ends what `servers up` started and removes its folder; answers whether there was anything.
    pub(crate) fn end_standing() -> Result<bool> {
        let _exclusive = lock("up.lock")?;
        let standing = runs(STANDING)?;
        for (name, folder) in &standing {
            sweep(name, folder)?;
        }
        Ok(!standing.is_empty())
    }

    /// Where this run keeps its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a new folder in [`Run::folder`], called `name` or, if that is taken, `name-2` and so on.
    pub(crate) fn new_folder(&self, name: &str) -> Result<PathBuf> {
        for number in 1.. {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            let folder = self.folder.join(name);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| folder.clone()).doing(format!("create {}", folder.display())),
            }
        }
        unreachable!("a folder has fewer than 2^31 entries")
    }

    /// A folder for accounts that cannot reach [`Run::folder`]; made on first use, removed with the run.
    pub(crate) fn outside_folder(&self) -> PathBuf {
        outside_folder(&self.name)
    }

    /// True if it ends with us.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self.life, Life::Private(_))
    }

    /// What asks this run to end.
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Makes `command` part of this run: marked, in a process group of its own, without our standard input.
    pub fn adopt(&self, command: &mut Command) {
        command.env(processes::MARK, processes::mark(&self.name)).process_group(0).stdin(Stdio::null());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Life::Private(private) = &mut self.life else { return };
        if let Err(error) = sweep(&self.name, &self.folder) {
            eprintln!("left behind: {}: {error}", self.folder.display());
        }
        drop(private.guard.stdin.take());
        // It finds nothing to do and ends.
        let _ = private.guard.wait();
    }
}

/// Starts what ends this run should we be killed: nothing of ours runs then.
fn start_guard(name: &str, folder: &Path) -> Result<Child> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(include_str!("guard.sh")).arg("guard");
    command.arg(name).arg(folder).arg(outside_folder(name));
    // A group of its own: Ctrl-C and whatever else ends our group must not end the guard.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().doing("start the guard")
}

/// Ends the run's processes and removes its folders.
fn sweep(name: &str, folder: &Path) -> Result<()> {
    processes::end_marked(name)?;
    for folder in [folder, &outside_folder(name)] {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).doing(format!("remove {}", folder.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn outside_folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("posthaste-{name}"))
}

fn make_folder(prefix: &str) -> Result<(String, PathBuf)> {
    let name = format!("{prefix}{:016x}", fastrand::u64(..));
    let folder = servers_folder()?.join(&name);
    fs::create_dir(&folder).doing(format!("create {}", folder.display()))?;
    Ok((name, folder))
}

fn runs(prefix: &str) -> Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(servers_folder()?).doing("list the runs")?;
    let named = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((entry.file_name().into_string().ok()?, entry.path()))
    });
    Ok(named.filter(|(name, path)| name.starts_with(prefix) && path.is_dir()).collect())
}

/// Waits for a lock of all runs of this checkout. `lock`: between making a folder and locking it a private run looks
/// dead, so nobody may look then. `up.lock`: one `servers up` or `down` at a time.
fn lock(name: &str) -> Result<File> {
    let lock = File::create(servers_folder()?.join(name)).doing("create the lock of all runs")?;
    lock.lock().doing("lock the runs")?;
    Ok(lock)
}

/// `target/servers` of this checkout, also where cargo's target folder is elsewhere and shared with other checkouts.
fn servers_folder() -> Result<PathBuf> {
    let folder = workspace()?.join("target").join("servers");
    fs::create_dir_all(&folder).doing(format!("create {}", folder.display()))?;
    Ok(folder)
}

/// Finds the root of the workspace at run time: a shared target folder may hold a binary that another checkout compiled.
///
/// # Errors
/// If no folder above has a `Cargo.lock`.
pub fn workspace() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let start = manifest.map_or_else(std::env::current_dir, Ok).doing("find the current folder")?;
    let root = start.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    root.map(Path::to_path_buf).ok_or_else(|| {
        Error::failed("no Cargo.lock in this folder or above: run it inside a workspace, by cargo")
    })
}
