//! The files in `deploy/`: they fit the binary, and whoever reads them finds nothing wrong.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::folder::{Answer, Folder, Running};
use crate::skip;

const DEADLINE: Duration = Duration::from_secs(30);

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

#[test]
fn the_roles_are_those_that_the_binary_prints() {
    let printed = Folder::new().ok(&["migrate", "print", "--roles", "--store", "postgres://localhost/x"]);
    let file = std::fs::read_to_string(deploy("roles.sql")).unwrap();
    assert_eq!(
        file,
        printed.text(),
        "write it again: cargo run -- migrate print --roles --store postgres://localhost/x > deploy/roles.sql"
    );
}

/// The unit with the binary of this test in place of the one that is not installed.
#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let unit = std::fs::read_to_string(deploy("posthaste.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/local/bin/posthaste serve "), "{unit}");
    let folder = Folder::new();
    folder.write(
        "posthaste.service",
        unit.replace("/usr/local/bin/posthaste", env!("CARGO_BIN_EXE_posthaste")),
    );
    let verify = ["verify", "--man=no"];
    let verified =
        Command::new("systemd-analyze").args(verify).arg(folder.path("posthaste.service")).output();
    let Ok(verified) = verified else {
        return skip::say("deploy::systemd_finds_nothing_wrong_with_the_unit", "there is no systemd-analyze");
    };
    let verified = Answer::from(verified);
    assert_eq!((verified.code, verified.stderr.as_str(), verified.text()), (0, "", ""));
}

/// Names and values of the settings that a manifest gives its container.
fn settings(manifest: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = manifest.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter_map(|pair| {
        let name = pair[0].strip_prefix("- name: ").filter(|name| name.starts_with("POSTHASTE"))?;
        let value = pair[1].strip_prefix("value: ").unwrap_or_else(|| panic!("{name} has no value below it"));
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    pairs.collect()
}

#[test]
fn every_setting_of_the_manifests_is_understood() {
    for name in ["kubernetes/standalone.yaml", "kubernetes/sidecar.yaml"] {
        let settings = settings(&std::fs::read_to_string(deploy(name)).unwrap());
        assert!(settings.len() >= 4, "{name}: {settings:?}");
        let folder = Folder::new();
        folder.write("store-url", "postgres://carrier@localhost/shop\n");
        folder.write("target-url", "amqp://localhost\n");
        let mut check = folder.command(&["check"]);
        for (setting, value) in settings {
            // Where the secrets are in a pod they are not here.
            let file = value.strip_prefix("/etc/posthaste/secret/").map(|file| folder.path(file));
            check.env(setting, file.map_or(value.clone(), |file| file.display().to_string()));
        }
        let checked = Answer::from(check.output().unwrap());
        assert_eq!(checked.code, 0, "{name}: {}", checked.stderr);
    }
}

/// What `Type=notify` and `WatchdogSec=` rest on, of both verbs that a unit may start.
#[test]
fn whoever_started_it_hears_that_it_is_ready_lives_and_stops() {
    for verb in [&["serve", "--listen", "127.0.0.1:0"][..], &["relay", "--to", "null:"]] {
        let folder = Folder::new();
        let ear = UnixDatagram::bind(folder.path("notify")).unwrap();
        ear.set_read_timeout(Some(DEADLINE)).unwrap();
        let hear = || {
            let mut text = [0; 64];
            let length = ear.recv(&mut text).unwrap_or_else(|error| panic!("{verb:?} says nothing: {error}"));
            String::from_utf8(text[..length].to_vec()).unwrap()
        };
        let mut command = folder.command(verb);
        command.env("NOTIFY_SOCKET", folder.path("notify")).env("WATCHDOG_USEC", "200000");
        let mut running = Running(command.spawn().unwrap());
        let mut heard = Vec::new();
        while heard.iter().filter(|word| *word == "WATCHDOG=1").count() < 3 {
            heard.push(hear());
        }
        assert_eq!(heard.iter().filter(|word| *word == "READY=1").count(), 1, "{verb:?}: {heard:?}");
        running.signal("TERM");
        while heard.last().is_none_or(|word| word != "STOPPING=1") {
            heard.push(hear());
        }
        assert_eq!(running.code(), 0);
    }
}

/// An image without root, whose base is named with a version, and whose entry is the binary.
#[test]
fn the_image_runs_the_binary_as_somebody_who_is_not_root() {
    let file = std::fs::read_to_string(deploy("Dockerfile")).unwrap();
    let last = |word: &str| {
        let mut lines = file.lines().filter_map(|line| line.strip_prefix(word));
        lines.next_back().unwrap_or_else(|| panic!("no {word}")).trim().to_owned()
    };
    assert_eq!(last("USER"), "65532:65532");
    assert_eq!(last("ENTRYPOINT"), r#"["/usr/local/bin/posthaste"]"#);
    for base in file.lines().filter_map(|line| line.strip_prefix("FROM ")) {
        let base = base.split(' ').next().unwrap();
        assert!(base.contains(':') && !base.ends_with(":latest"), "{base}");
    }
    let cargo = std::fs::read_to_string(deploy("../Cargo.toml")).unwrap();
    let version = cargo.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(file.contains(&format!("FROM rust:{}-", version.trim_matches('"'))), "built with Rust {version}");
    let ignored = std::fs::read_to_string(deploy("../.dockerignore")).unwrap();
    for secret in ["posthaste.key", ".env", "/target"] {
        assert!(ignored.lines().any(|line| line == secret), "{secret} would be sent to the builder");
    }
}
