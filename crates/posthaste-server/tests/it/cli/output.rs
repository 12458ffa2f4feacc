//! What goes to stdout, and when nobody reads it.

use std::process::Stdio;

use crate::cli::folder::Folder;

/// Every verb that answers, with one document each.
#[test]
fn json_output_is_one_document() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    folder.ok(&["relay", "--once", "--to", "null:"]);
    let verbs: [&[&str]; 12] = [
        &["publish", "--type", "x", "--data", "{}"],
        &["event", "list"],
        &["lane", "list"],
        &["lane", "pause", "main"],
        &["lane", "resume", "--all"],
        &["dead", "list"],
        &["stats"],
        &["migrate", "up"],
        &["migrate", "status"],
        &["prune", "--yes"],
        &["replay", "--lane", "main", "--dry-run"],
        &["check", "--connect"],
    ];
    for verb in verbs {
        assert!(folder.json(verb).is_object(), "{verb:?}");
    }
}

#[test]
fn nobody_reading_is_a_quiet_end() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    for verb in [&["event", "list"][..], &["completions", "bash"], &["check", "--print"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = folder.command(verb).stdout(writer).output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
            (Some(0), ""),
            "{verb:?}"
        );
    }
}

#[test]
fn a_full_disk_behind_stdout_is_told() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = folder.command(&["event", "list"]).stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("failed to write to stdout"));
}

#[test]
fn completions_exist_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(folder.ok(&["completions", shell]).text().contains("redrive"), "{shell}");
    }
}

#[test]
fn usage_is_code_two_and_help_is_code_zero() {
    let folder = Folder::new();
    for arguments in
        [&[][..], &["nonsense"], &["event", "show"], &["publish"], &["event", "list", "--limit", "0"]]
    {
        let answer = folder.run(arguments);
        assert_eq!(answer.code, 2, "{arguments:?}");
        let said = if arguments.is_empty() {
            "Usage: posthaste"
        } else {
            "error: failed to read the command line: "
        };
        assert!(answer.stderr.contains(said), "{arguments:?}: {}", answer.stderr);
    }
    assert_eq!(folder.run(&["event", "list", "--store", "sqlite:a.db", "--server", "http://b:1"]).code, 2);
    assert!(folder.ok(&["help"]).text().contains("Exit codes"));
    assert!(folder.ok(&["--version"]).text().starts_with("posthaste "));
}

#[test]
fn a_line_of_a_list_has_at_most_a_hundred_characters() {
    let folder = Folder::new();
    let long = "k".repeat(255);
    folder.ok(&["publish", "--type", "order.placed", "--topic", &long, "--key", &long, "--data", "{}"]);
    folder.publish("x", "{}");
    folder.write(
        "posthaste.toml",
        "[lanes.a-lane-with-a-long-name]\nto = \"null:\"\n[lanes.another]\nto = \"null:\"\n",
    );
    folder.ok(&["relay", "--once"]);
    for verb in [&["event", "list"][..], &["lane", "list"], &["stats"]] {
        let answer = folder.ok(verb);
        for line in answer.text().lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    assert!(folder.ok(&["event", "list", "--type", "x"]).text().contains("2 delivered"));
}

/// A producer that writes plain SQL may store anything; a terminal must not obey it.
#[test]
fn nothing_stored_steers_the_terminal() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    folder.sql("INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('evil', 'a' || char(27) || '[2J', 'b' || char(27) || '[2J')");
    for verb in [&["event", "list"][..], &["event", "show", "evil"]] {
        let answer = folder.ok(verb);
        assert!(!answer.stdout.contains(&27), "{verb:?}: {}", answer.text());
    }
    assert_eq!(folder.ok(&["event", "show", "evil", "--payload"]).stdout, b"b\x1b[2J");
}
