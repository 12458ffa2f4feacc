//! Which Postgres the tests run against.

use std::io::Write as _;

use posthaste_sql::Dialect;

use crate::script::Table;

/// The servers that the environment names: Postgres itself, and the same behind a pooler in transaction mode.
///
/// None is a skip, said by name; where everything must run (`CI=true`) it is a failure.
#[expect(clippy::disallowed_methods, reason = "tests learn from the environment which servers there are")]
pub(crate) fn urls(test: &str) -> Vec<String> {
    const SERVERS: [&str; 2] = ["POSTHASTE_TEST_POSTGRES", "POSTHASTE_TEST_PGBOUNCER"];
    let mut urls = Vec::new();
    for variable in SERVERS {
        match std::env::var(variable) {
            Ok(url) => urls.push(url),
            Err(_) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
                panic!("{test}: {variable} is not set")
            }
            // Not `eprintln!`, which a passing test swallows: a skip must be seen.
            Err(_) => std::io::stderr()
                .write_all(format!("skipped: {test}: {variable} is not set\n").as_bytes())
                .unwrap(),
        }
    }
    urls
}

/// The server itself, for drivers that prepare what they run: behind a pooler in transaction mode the names of their statements
/// meet those of others.
pub(crate) fn direct_urls(test: &str) -> Vec<String> {
    urls(test).into_iter().take(1).collect()
}

/// A table that only this test of this process uses.
pub(crate) fn table(test: &str) -> Table {
    Table { name: format!("posthaste_sql_{test}_{}", std::process::id()), dialect: Dialect::Postgres }
}
