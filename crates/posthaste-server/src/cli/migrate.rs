//! `posthaste migrate`: makes and checks the store's tables.

use clap::Subcommand;
use posthaste::ErrorKind;
use posthaste::schema::SchemaStatus;
use posthaste::table::{Profile, TableName};
use serde::Serialize;

use super::context::Context;
use super::output;
use crate::config::{self, store::StoreConfig};
use crate::exit::Failure;

/// What `migrate` does.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Verb {
    /// Bring the tables to this binary's version
    Up,
    /// Say which version is there and which this binary wants
    Status,
    /// Print the SQL that makes the tables
    Print {
        /// Print the SQL that makes the roles of a Postgres database and gives them their rights
        #[arg(long)]
        roles: bool,
        /// Print the SQL that an outbox table of this profile needs; Posthaste never runs it. With --store
        /// URL, or a table in the configuration, it looks at the table: of one that is there it prints only
        /// what that lacks
        #[arg(long, value_name = "NAME", conflicts_with = "roles")]
        profile: Option<String>,
        /// The table's name, where it is not the profile's
        #[arg(long, value_name = "NAME", requires = "profile", value_parser = table_name)]
        table: Option<TableName>,
        /// Print the SQL that makes a table for the record of commands beside an outbox table; Posthaste never runs it
        #[arg(long, conflicts_with_all = ["roles", "profile"])]
        audit: bool,
    },
}

/// Which version is there, and which is wanted.
#[derive(Serialize)]
struct StatusDocument {
    present: Option<u32>,
    wanted: u32,
    compatible_from: u32,
    usable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Vec<u32>>,
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<(), Failure> {
    match verb {
        Verb::Print { profile: Some(name), table, .. } => print_table(name, table.clone(), context).await,
        Verb::Print { audit: true, .. } => print_audit(context),
        Verb::Print { roles: true, .. } => {
            let store = &context.config.store;
            if !store.is_postgres() {
                return Err(Failure::usage(
                    "print the roles: an embedded store has none, its file's rights count; say --store postgres://…",
                ));
            }
            output::write(posthaste_core::sql::postgres_roles(&store.prefix).as_bytes())
        }
        Verb::Print { roles: false, .. } => {
            let store = &context.config.store;
            let ddl = match () {
                () if store.is_postgres() => posthaste_core::sql::postgres_ddl(&store.prefix),
                () if store.is_mysql() => posthaste_core::sql::mysql_ddl(&store.prefix),
                () => posthaste_core::sql::sqlite_ddl(&store.prefix),
            };
            if let Some(table) = &store.table {
                let (table, profile) = (&table.profile.table, table.profile.name());
                output::note(&format!(
                    "these are tables of Posthaste's own; --profile {profile} prints what the table {table} lacks"
                ));
            }
            output::write(ddl.as_bytes())
        }
        Verb::Status => {
            let status = context.existing_store().await?.status().await.map_err(during)?;
            show(&status, None, context)
        }
        Verb::Up => {
            let store = context.store().await?;
            let applied = store.migrate().await.map_err(during)?;
            show(&store.status().await.map_err(during)?, Some(applied), context)
        }
    }
}

/// What an outbox table needs: what the table lacks in the store that is named or configured, else all of it
/// on Postgres.
async fn print_table(name: &str, table: Option<TableName>, context: &Context) -> Result<(), Failure> {
    let Some(mut profile) = Profile::named(name) else {
        let names = Profile::NAMES.join(", ");
        return Err(Failure::usage(format!("print the table: {name:?} is not a profile; there are {names}")));
    };
    if let Some(table) = context.config.store.table.as_ref().filter(|table| table.profile.name() == name) {
        profile = table.profile.clone();
    }
    if let Some(table) = table {
        profile = profile.on(table);
    }
    output::write(needed(&profile, context).await?.as_bytes())
}

/// The SQL that the table needs; all of it where the database cannot be reached.
async fn needed(profile: &Profile, context: &Context) -> Result<String, Failure> {
    let store = &context.config.store;
    if !context.names_store() && store.table.is_none() {
        return Ok(posthaste::table::postgres_table_ddl(profile));
    }
    if context.missing_file().is_some() {
        return Ok(created(profile, store));
    }
    match config::store::table_ddl(&context.config, profile.clone()).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            let why = format!("cannot look at the table ({error}); this SQL creates a new one");
            output::note(&why);
            Ok(format!("-- {}\n{}", why.replace('\n', " "), created(profile, store)))
        }
        looked => looked.map_err(|error| error.during("look at the table").into()),
    }
}

/// The SQL that creates the table in this store.
fn created(profile: &Profile, store: &StoreConfig) -> String {
    match () {
        () if store.is_mysql() => posthaste::table::mysql_table_ddl(profile),
        () if store.is_postgres() => posthaste::table::postgres_table_ddl(profile),
        () => posthaste::table::sqlite_table_ddl(profile),
    }
}

fn table_name(text: &str) -> Result<TableName, String> {
    text.parse().map_err(|error: posthaste::Error| error.to_string())
}

/// The table for the record of commands, in the words of the store that is named or configured, else of Postgres.
fn print_audit(context: &Context) -> Result<(), Failure> {
    let store = &context.config.store;
    let is_known = context.names_store() || store.table.is_some();
    let ddl = match () {
        () if is_known && store.is_mysql() => posthaste::table::mysql_audit_ddl(&store.prefix),
        () if is_known && !store.is_postgres() => posthaste::table::sqlite_audit_ddl(&store.prefix),
        () => posthaste::table::postgres_audit_ddl(&store.prefix),
    };
    output::write(ddl.as_bytes())
}

fn during(error: posthaste::Error) -> Failure {
    error.during("migrate").into()
}

fn show(status: &SchemaStatus, applied: Option<Vec<u32>>, context: &Context) -> Result<(), Failure> {
    let SchemaStatus { present, wanted, compatible_from, .. } = *status;
    if context.json() {
        return output::json(&StatusDocument {
            present,
            wanted,
            compatible_from,
            usable: status.usable(),
            applied,
        });
    }
    let there = present.map_or("none".to_owned(), |version| version.to_string());
    let verdict = if status.usable() { "ready" } else { "run posthaste migrate up" };
    output::line(&format!("schema {there}, this binary wants {wanted}: {verdict}"))
}
