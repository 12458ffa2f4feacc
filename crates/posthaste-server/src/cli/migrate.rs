//! `posthaste migrate`: makes and checks the store's tables.

use clap::Subcommand;
use posthaste::schema::SchemaStatus;
use posthaste::table::Profile;
use serde::Serialize;

use super::context::Context;
use super::output;
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
        /// Print the SQL that an outbox table of this profile needs; Posthaste never runs it
        #[arg(long, value_name = "NAME", conflicts_with = "roles")]
        profile: Option<String>,
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
        Verb::Print { profile: Some(name), .. } => print_table(name, context),
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

/// What an outbox table needs: in the words of the store that is named, else of Postgres.
fn print_table(name: &str, context: &Context) -> Result<(), Failure> {
    let Some(mut profile) = Profile::named(name) else {
        let names = Profile::NAMES.join(", ");
        return Err(Failure::usage(format!("print the table: {name:?} is not a profile; there are {names}")));
    };
    let store = &context.config.store;
    if let Some(table) = store.table.as_ref().filter(|table| table.profile.name() == name) {
        profile = table.profile.clone();
    }
    let ddl = match () {
        () if context.names_store() && store.is_mysql() => posthaste::table::mysql_table_ddl(&profile),
        () if context.names_store() && !store.is_postgres() => posthaste::table::sqlite_table_ddl(&profile),
        () => posthaste::table::postgres_table_ddl(&profile),
    };
    output::write(ddl.as_bytes())
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
