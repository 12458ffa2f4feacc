//! What goes to stdout, and when nobody reads it.

use std::process::Stdio;

use crate::cli::dead::with_dead_of;
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

/// A terminal shows what fits into its width; a program gets everything.
#[test]
fn tables_are_cut_on_a_terminal_only() {
    let folder = Folder::new();
    let long = "k".repeat(255);
    folder.ok(&["publish", "--type", "order.placed", "--topic", &long, "--key", &long, "--data", "{}"]);
    folder.publish("x", "{}");
    folder.write(
        "posthaste.toml",
        "[lanes.a-lane-with-a-long-name]\nto = \"null:\"\n[lanes.another]\nto = \"null:\"\n",
    );
    folder.ok(&["relay", "--once"]);
    assert_eq!(folder.ok(&["event", "list"]).text().matches(&long).count(), 2, "topic and key are whole");
    for verb in [&["event", "list"][..], &["lane", "list"], &["stats"]] {
        let Some(shown) = folder.on_terminal("tables_are_cut_on_a_terminal_only", verb) else { return };
        assert!(shown.lines().count() > 1, "{shown}");
        for line in shown.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    assert!(folder.ok(&["event", "list", "--type", "x"]).text().contains("2 delivered"));
}

/// An error is not cut either, so that a program can search for its text.
#[test]
fn an_error_is_listed_whole_without_a_terminal() {
    let long = format!("no such customer: {}", "x".repeat(300));
    let folder = with_dead_of(&long);
    let listed = folder.ok(&["dead", "list"]).text().to_owned();
    assert!(listed.contains(&long), "{listed}");
}

/// Ids that look the same must not be the same line, and no character turns the rest of a line around.
#[test]
fn hidden_characters_are_written_out_in_every_list() {
    let hidden = "\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{ad}";
    let folder = with_dead_of(&format!("said{hidden}"));
    let id = format!("a{hidden}b");
    let header = format!("h=v{hidden}");
    folder.ok(&[
        "publish",
        "--type",
        &format!("t{hidden}"),
        "--topic",
        "t",
        "--key",
        &id,
        "--id",
        &id,
        "--header",
        &header,
        "--data",
        "{}",
    ]);
    folder.ok(&["relay", "--once", "--to", "null:"]);
    folder.write("text", format!("p{hidden}"));
    folder.ok(&[
        "publish",
        "--type",
        "t",
        "--id",
        "text",
        "--content-type",
        "text/plain",
        "--data-file",
        "text",
    ]);
    folder.ok(&["lane", "pause", "main"]);
    let verbs: [&[&str]; 8] = [
        &["event", "list"],
        &["event", "show", &id],
        &["event", "show", "text"],
        &["dead", "list"],
        &["dead", "show", "1"],
        &["lane", "show", "main"],
        &["replay", "--lane", "main", "--dry-run"],
        &["audit"],
    ];
    for verb in verbs {
        let answer = folder.ok(verb);
        let raw = answer.text().chars().find(|sign| hidden.contains(*sign));
        assert_eq!(raw, None, "{verb:?}: {}", answer.text());
    }
    for verb in &verbs[..5] {
        assert!(folder.ok(verb).text().contains("\\u{202e}"), "{verb:?}: {}", folder.ok(verb).text());
    }
    let missing = folder.run(&["event", "show", &format!("x{hidden}")]);
    assert!(!missing.stderr.contains('\u{202e}') && missing.code == 6, "{}", missing.stderr);
    assert_eq!(folder.json(&["event", "show", &id])["id"], *id, "a program gets the id as it is");
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
