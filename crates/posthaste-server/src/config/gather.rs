//! Gathers the layers: the only part of the configuration that touches files.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::Config;
use super::environment::{self, Environment};
use super::problem::Problem;
use super::reference;
use super::tree::{Layer, Node, Origin, Table};

/// The configuration file that is read when none is named.
const FILE: &str = "posthaste.toml";
const DOTENV: &str = ".env";
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The flag that names the database of an outbox table.
pub const STORAGE_URL: &str = "--storage-url";
/// What a file says about that table; a flag for the database replaces none of it.
const OF_TABLE: [&str; 4] = ["profile", "table", "columns", "states"];

/// A setting made by a flag of the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// The flag as it is written: `--store`.
    pub flag: &'static str,
    /// Which setting it makes: `store.url`.
    pub path: &'static str,
    /// Its value.
    pub value: String,
}

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that was named; it must be there.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Environment,
    /// Settings by flags.
    pub flags: Vec<Flag>,
    /// Whether the variables of the open-outbox reference relay count, where they are set.
    pub reference: bool,
}

impl Sources {
    /// Reads all layers and understands them. Answers the environment too, as `.env` may have added to it.
    ///
    /// # Errors
    /// Every mistake there is, each with where it stands.
    pub fn load(mut self) -> Result<(Config, Environment), Vec<Problem>> {
        let mut problems = Vec::new();
        // Before everything else, as it may hold the reference's variables.
        let mut dotenv = Table::default();
        if self.environment.is_development()
            && let Some(text) = read_if_there(DOTENV, &mut problems)
        {
            environment::overlay_dotenv(&text, &mut dotenv, &mut self.environment, &mut problems);
        }
        let is_reference = self.reference && reference::counts(&self.environment);
        let mut settings = if is_reference { reference::defaults() } else { Table::default() };
        self.read_file(&mut settings, &mut problems);
        settings.overlay(dotenv);
        if is_reference {
            let notes = reference::overlay(&self.environment, &mut settings, &mut problems);
            self.environment.note(notes);
        } else if self.reference {
            self.environment.note(reference::not_counted(&self.environment).into_iter().collect());
        }
        self.environment.overlay(&mut settings, &mut problems);
        let names_storage = self.flags.iter().any(|flag| flag.flag == STORAGE_URL);
        for Flag { flag, path, value } in self.flags {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            settings.put(&path, value, Origin::new(Layer::Flag, flag));
        }
        if names_storage {
            self.environment.note(kept_of_file(&settings).into_iter().collect());
        }
        resolve_files(&mut settings, &mut problems);
        match Config::read(&settings) {
            Ok(config) if problems.is_empty() => Ok((config, self.environment)),
            Ok(_) => Err(problems),
            Err(more) => {
                problems.extend(more);
                Err(problems)
            }
        }
    }

    fn read_file(&self, settings: &mut Table, problems: &mut Vec<Problem>) {
        let name = self.file.as_ref().map_or(FILE.to_owned(), |file| file.display().to_string());
        let text = match &self.file {
            Some(_) => read(&name, problems),
            None => read_if_there(&name, problems),
        };
        if let Some(text) = text {
            settings.overlay(Table::parse(&text, Layer::File, &name, problems));
        }
    }
}

/// Says what of a file's table stays in force beside a flag that names the database, if anything does.
fn kept_of_file(settings: &Table) -> Option<String> {
    let store = settings.table("store")?;
    let of_file = |key: &&str| store.0.get(*key).is_some_and(|node| node.origin().layer == Layer::File);
    let places: Vec<String> = OF_TABLE
        .iter()
        .filter(|key| of_file(key))
        .filter_map(|key| Some(format!("store.{key} ({})", store.0.get(*key)?.origin())))
        .collect();
    if places.is_empty() {
        return None;
    }
    Some(format!(
        "{STORAGE_URL} replaces the database of the configuration file and keeps what the file says about the table: {}; \
         replace it with --profile and --table, or read another file with --config FILE",
        places.join(", ")
    ))
}

fn read_if_there(name: &str, problems: &mut Vec<Problem>) -> Option<String> {
    match fs::metadata(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        _ => read(name, problems),
    }
}

fn read(name: &str, problems: &mut Vec<Problem>) -> Option<String> {
    let text = fs::metadata(name).and_then(|about| {
        if about.len() > FILE_BYTES_MAX {
            return Err(std::io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        fs::read_to_string(name)
    });
    text.map_err(|error| problems.push(Problem::new(name, format!("cannot be read: {error}")))).ok()
}

/// Puts the contents of every `NAME_file` in the place of `NAME`. The one from the higher layer wins; both in one layer is
/// a mistake.
fn resolve_files(table: &mut Table, problems: &mut Vec<Problem>) {
    for node in table.0.values_mut() {
        if let Node::Table(inner, _) = node {
            resolve_files(inner, problems);
        }
    }
    let names: Vec<String> =
        table.0.keys().filter_map(|key| key.strip_suffix("_file").map(str::to_owned)).collect();
    for name in names {
        let Some(Node::Leaf(toml::Value::String(path), origin)) =
            table.0.get(&format!("{name}_file")).cloned()
        else {
            continue;
        };
        match table.0.get(&name).map(|node| node.origin().layer) {
            _ if path.is_empty() => continue,
            Some(layer) if layer > origin.layer => continue,
            Some(layer) if layer == origin.layer => {
                problems.push(Problem::at(
                    &origin,
                    format!("{name}_file and {name} are both set; remove one of the two"),
                ));
            }
            _ => {
                if let Some(text) = read(&path, problems) {
                    table.0.insert(name, Node::Leaf(text.trim_end().into(), origin));
                }
            }
        }
    }
}
