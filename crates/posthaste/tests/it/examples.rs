//! Every example runs and prints what stands beside it in its `.out` file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio_postgres::{Client, Config, NoTls};

/// These are told in `DATABASE_URL` which Postgres they may use.
const ON_POSTGRES: [&str; 1] = ["diesel_async"];

/// Where cargo puts examples: beside the folder that this test runs in.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile =
        test.parent().and_then(Path::parent).expect("cargo runs tests two folders below the profile's");
    profile.join("examples").join(name)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn prints_what_it_promises(name: &str, database: &str) {
    let expected = std::fs::read_to_string(folder().join(name).with_extension("out")).unwrap();
    let binary = built(name);
    assert!(binary.exists(), "{name} is not built: run `cargo build -p posthaste --examples`");
    let run = Command::new(binary).env("DATABASE_URL", database).output().unwrap();
    assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(String::from_utf8(run.stdout).unwrap(), expected, "{name}");
}

#[test]
fn every_example_prints_what_it_promises() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| !ON_POSTGRES.contains(&name.as_str()))
        .collect();
    names.sort();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        prints_what_it_promises(&name, "");
    }
}

#[tokio::test]
async fn every_example_on_postgres_prints_what_it_promises() {
    let Some(server) = server("every_example_on_postgres_prints_what_it_promises") else { return };
    for name in ON_POSTGRES {
        let database = format!("example_{name}_{}", std::process::id());
        let maker = connect(&server).await;
        maker.batch_execute(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)")).await.unwrap();
        maker.batch_execute(&format!("CREATE DATABASE {database} TEMPLATE template0")).await.unwrap();
        prints_what_it_promises(name, &in_database(&server, &database));
        maker.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "tests learn from the environment which servers there are")]
fn server(test: &str) -> Option<String> {
    const VARIABLE: &str = "POSTHASTE_TEST_POSTGRES";
    let server = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty());
    if server.is_none() {
        assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "{test}: {VARIABLE} is not set");
        // Not `eprintln!`, which a passing test swallows: a skip must be seen.
        std::io::stderr().write_all(format!("skipped: {test}: {VARIABLE} is not set\n").as_bytes()).unwrap();
    }
    server
}

/// The same server, another database.
fn in_database(server: &str, database: &str) -> String {
    let (base, _) = server.rsplit_once('/').expect("the URL of a server ends with a database");
    format!("{base}/{database}")
}

#[expect(clippy::disallowed_methods, reason = "the connection ends with its client")]
async fn connect(url: &str) -> Client {
    let (client, connection) = url.parse::<Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
