//! The files in `deploy/`: they fit the binary, and whoever reads them finds nothing wrong.

use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::brokers::environment;
use crate::cli::folder::{Answer, Folder, Running};
use crate::http_process::skip;

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
    let folder = Folder::new();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (name, says) in [
        ("posthaste.service", "ExecStart=/usr/local/bin/posthaste serve "),
        ("posthaste-prune.service", "ExecStart=/usr/local/bin/posthaste prune "),
        ("posthaste-prune.timer", "OnCalendar="),
    ] {
        let unit = std::fs::read_to_string(deploy(name)).unwrap();
        assert!(unit.contains(says), "{unit}");
        folder.write(name, unit.replace("/usr/local/bin/posthaste", env!("CARGO_BIN_EXE_posthaste")));
        verify.arg(folder.path(name));
    }
    let verified = verify.output();
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
    for (name, least) in
        [("kubernetes/standalone.yaml", 4), ("kubernetes/sidecar.yaml", 4), ("kubernetes/prune.yaml", 1)]
    {
        let settings = settings(&std::fs::read_to_string(deploy(name)).unwrap());
        assert!(settings.len() >= least, "{name}: {settings:?}");
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
    assert!(
        file.contains(&format!("FROM rust:{}-alpine", version.trim_matches('"'))),
        "Rust {version}, on musl"
    );
    assert!(file.contains("distroless/static-"), "nothing but the binary and the CAs");
    let ignored = std::fs::read_to_string(deploy("../.dockerignore")).unwrap();
    for secret in ["posthaste.key", ".env", "/target"] {
        assert!(ignored.lines().any(|line| line == secret), "{secret} would be sent to the builder");
    }
}

/// What the units and the manifest of pruning say to the binary is understood.
#[test]
fn what_prunes_every_night_is_understood_by_the_binary() {
    let unit = std::fs::read_to_string(deploy("posthaste-prune.service")).unwrap();
    let said =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/posthaste ")).unwrap();
    let said = said.replace(" --config /etc/posthaste/posthaste.toml", "");
    let manifest = std::fs::read_to_string(deploy("kubernetes/prune.yaml")).unwrap();
    let args = manifest.lines().find_map(|line| line.trim().strip_prefix("args: [")).unwrap();
    let args = args.trim_end_matches(']').replace(',', "");
    assert_eq!(args, said, "both do the same");
    let folder = Folder::new();
    folder.publish("x", "{}");
    let pruned = folder.ok(&said.split(' ').collect::<Vec<_>>());
    assert!(pruned.text().starts_with("prune: 0 of 0 events"), "{}", pruned.text());
}

/// A tool that reads what is deployed, if it can be had.
fn tool(trial: &str, name: &str) -> Option<PathBuf> {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/requirements.txt");
    match environment::python("deploy-tools", &requirements) {
        Ok(python) => Some(python.with_file_name(name)),
        Err(why) => {
            skip::say(trial, &why);
            None
        }
    }
}

#[test]
fn a_linter_finds_nothing_wrong_with_the_image() {
    let Some(hadolint) = tool("deploy::a_linter_finds_nothing_wrong_with_the_image", "hadolint") else {
        return;
    };
    let linted = Answer::from(Command::new(hadolint).arg(deploy("Dockerfile")).output().unwrap());
    assert_eq!((linted.code, linted.text(), linted.stderr.as_str()), (0, "", ""));
}

#[test]
fn the_manifests_are_what_kubernetes_takes() {
    let trial = "deploy::the_manifests_are_what_kubernetes_takes";
    let Some(validate) = tool(trial, "kubernetes-validate") else { return };
    let validate = |file: &Path| {
        Answer::from(Command::new(&validate).args(["--strict", "--quiet"]).arg(file).output().unwrap())
    };
    for name in ["standalone", "sidecar", "prune"] {
        let checked = validate(&deploy(&format!("kubernetes/{name}.yaml")));
        assert_eq!(checked.code, 0, "{name}: {}{}", checked.text(), checked.stderr);
    }
    let folder = Folder::new();
    let wrong = std::fs::read_to_string(deploy("kubernetes/prune.yaml")).unwrap();
    folder.write("wrong.yaml", wrong.replace("concurrencyPolicy", "concurrency"));
    assert_ne!(validate(&folder.path("wrong.yaml")).code, 0, "a name that is none is found");
}

/// The image itself, where somebody has an engine: it builds everything anew, so only where everything is checked.
#[test]
fn the_image_can_be_built_and_says_its_version() {
    let trial = "deploy::the_image_can_be_built_and_says_its_version";
    let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    let answers = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !is_ci || !answers(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"])) {
        let why =
            if is_ci { "no engine of containers answers" } else { "it takes long; it is built with CI=true" };
        // No machine need have an engine.
        return writeln!(std::io::stderr(), "skipped: {trial}: {why}").unwrap();
    }
    let (file, root) = (deploy("Dockerfile"), deploy(".."));
    let build = ["build", "--quiet", "--tag", "posthaste-under-test", "--file"];
    let built = Answer::from(Command::new("docker").args(build).arg(file).arg(root).output().unwrap());
    assert_eq!(built.code, 0, "{}", built.stderr);
    let run = ["run", "--rm", "--read-only", "posthaste-under-test", "--version"];
    let said = Answer::from(Command::new("docker").args(run).output().unwrap());
    assert_eq!(said.text().trim(), format!("posthaste {}", env!("CARGO_PKG_VERSION")), "{}", said.stderr);
}
