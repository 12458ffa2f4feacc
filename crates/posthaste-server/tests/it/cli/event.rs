//! Publishing and looking: what goes in comes out, byte for byte.

use std::io::{BufRead, BufReader};
use std::process::Command;

use serde_json::Value;

use crate::cli::dead::with_dead;
use crate::cli::folder::{Answer, Folder, Running};
use crate::cli::server::serve;

#[test]
fn a_published_payload_is_shown_byte_for_byte() {
    let folder = Folder::new();
    let payloads = [r#"{"a":"q\"q"}"#, "{ \"a\" :\t1.50 ,\n \"b\": [ ] }", "\"ü😀\"", "null", " 1 "];
    for payload in payloads {
        let id = folder.publish("x", payload);
        assert_eq!(folder.ok(&["event", "show", &id, "--payload"]).stdout, payload.as_bytes());
        let shown = folder.ok(&["event", "show", &id]);
        assert!(shown.text().ends_with(&format!("\n\n{payload}\n")), "{}", shown.text());
    }
}

#[test]
fn bytes_that_are_no_text_pass_through_files_and_pipes() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..=255).collect();
    folder.write("payload", &bytes);
    let publish = ["publish", "--type", "x", "--content-type", "application/octet-stream"];
    let from_file = folder.ok(&[&publish[..], &["--data-file", "payload"]].concat()).text().trim().to_owned();
    let piped = folder.run_with_stdin(&publish, &bytes).text().trim().to_owned();
    for id in [from_file, piped] {
        assert_eq!(folder.ok(&["event", "show", &id, "--payload"]).stdout, bytes);
        let shown = folder.ok(&["event", "show", &id]);
        assert!(shown.text().contains("256 bytes that are not plain text"), "{}", shown.text());
    }
}

#[test]
fn a_payload_is_shown_as_text_json_and_byte_by_byte() {
    let folder = Folder::new();
    let id = folder.publish("x", r#"{"b":1.50,"a":[]}"#);
    let shown = |how: &str| folder.ok(&["event", "show", &id, "--as", how]).text().to_owned();
    assert!(shown("json").ends_with("\n\n{\n  \"b\": 1.50,\n  \"a\": []\n}\n"), "{}", shown("json"));
    assert!(shown("text").ends_with("\n\n{\"b\":1.50,\"a\":[]}\n"), "{}", shown("text"));
    let line = "00000000  7b 22 62 22 3a 31 2e 35  30 2c 22 61 22 3a 5b 5d  |{\"b\":1.50,\"a\":[]|\n";
    assert!(shown("hex").contains(line), "{}", shown("hex"));
    folder.write("bytes", [0x1b, b'[', 0xff]);
    let publish = ["publish", "--type", "x", "--content-type", "image/png", "--data-file", "bytes"];
    let bytes = folder.ok(&publish).text().trim().to_owned();
    assert!(folder.ok(&["event", "show", &bytes]).text().contains("--as hex"));
    assert!(folder.ok(&["event", "show", &bytes, "--as", "text"]).text().ends_with("\n\n\\u{1b}[\u{fffd}\n"));
    folder.run(&["event", "show", &bytes, "--as", "json"]).assert_failed(2, &["it is not JSON"]);
    assert_eq!(folder.run(&["event", "show", &bytes, "--as", "hex", "--payload"]).code, 2);
}

/// Indented, 600 KB would become 20 GB: the process may use 2 GiB of addresses, and what it writes is short.
#[test]
fn a_deeply_nested_payload_is_shown_within_bounds() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    let depth = 100_000;
    let deep = format!("{}{}", "{\"a\":".repeat(depth), "1".to_owned() + &"}".repeat(depth));
    folder.sql(&format!(
        "INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('deep', 'x', CAST('{deep}' AS BLOB))"
    ));
    let limited = |arguments: &[&str]| -> Answer {
        let binary = folder.command(arguments);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "ulimit -v 2097152 && exec \"$0\" \"$@\""])
            .arg(binary.get_program())
            .args(binary.get_args());
        // Each arena of the allocator reserves addresses.
        shell
            .current_dir(folder.path(""))
            .env("MALLOC_ARENA_MAX", "2")
            .env("POSTHASTE__SERVER__LISTEN", "127.0.0.1:9");
        shell.output().unwrap().into()
    };
    for verb in ["event", "dead"] {
        let shown = limited(&[verb, "show", "deep", "--as", "json"]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert!(shown.stdout.len() < 100_000, "{}", shown.stdout.len());
        let note = "(cut: what is nested deeper than 128 levels is shown as {…} or […]; --payload writes";
        assert!(shown.text().lines().last().unwrap().starts_with(note), "{}", shown.text());
    }
    assert_eq!(limited(&["event", "show", "deep", "--payload"]).stdout, deep.as_bytes());
    for how in [&["--as", "text"][..], &["--as", "hex"], &["--output", "json"], &[]] {
        let shown = limited(&[&["event", "show", "deep"], how].concat());
        assert_eq!(shown.code, 0, "{how:?}: {}", shown.stderr);
        assert!(shown.stdout.len() < 2 * deep.len(), "{how:?}: {}", shown.stdout.len());
    }
    let (mut running, address) = serve(&folder);
    let by_server =
        limited(&["event", "show", "deep", "--as", "json", "--server", &format!("http://{address}")]);
    assert_eq!(by_server.stdout, limited(&["event", "show", "deep", "--as", "json"]).stdout);
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}

#[test]
fn of_two_events_with_one_id_the_source_says_which() {
    let folder = Folder::new();
    for source in ["/shop", "/stock"] {
        folder.ok(&["publish", "--type", "x", "--id", "1", "--source", source, "--data", "{}"]);
    }
    folder.run(&["event", "show", "1"]).assert_failed(2, &["several sources", "--source", "/shop, /stock"]);
    assert_eq!(folder.json(&["event", "show", "1", "--source", "/shop"])["source"], "/shop");
    folder.run(&["event", "show", "1", "--source", "/moon"]).assert_failed(6, &["find an event"]);
    let (mut running, address) = serve(&folder);
    let server = ["--server", &format!("http://{address}")];
    let ask = |arguments: &[&str]| folder.run(&[&["event", "show", "1"], arguments, &server].concat());
    ask(&[]).assert_failed(2, &["several sources", "source"]);
    assert!(ask(&["--source", "/stock"]).text().contains("/stock"));
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}

/// Died, sent again, died again, and put off: as the lane and the record know it, from the store as by a server.
#[test]
fn what_happened_to_an_event_is_shown_in_its_order() {
    let folder = with_dead();
    folder.ok(&["dead", "redrive", "--lane", "main", "--id", "2"]);
    folder.ok(&["event", "schedule", "--lane", "main", "--id", "2", "--at", "1d"]);
    folder.ok(&["event", "bury", "--lane", "main", "--type", "x", "--reason", "a typo", "--rate", "100/s"]);
    folder.ok(&["lane", "pause", "main"]);
    let shown = folder.json(&["event", "show", "2"]);
    let told: Vec<_> = shown["history"].as_array().unwrap().iter().map(|known| &known["what"]).collect();
    assert_eq!(told[0], "taken in", "{shown:#}");
    let place =
        |what: &str| told.iter().position(|told| *told == what).unwrap_or_else(|| panic!("{shown:#}"));
    assert!(place("redrive") < place("schedule") && place("schedule") < place("bury"), "{shown:#}");
    assert!(!told.iter().any(|told| *told == "pause"), "that was not about events");
    let (redrive, bury) = (&shown["history"][place("redrive")], &shown["history"][place("bury")]);
    assert_eq!(
        (&redrive["maybe"], &bury["maybe"], &bury["detail"]),
        (&Value::Null, &true.into(), &"a typo".into())
    );
    let text = folder.ok(&["event", "show", "2"]).text().to_owned();
    for said in
        ["  code        buried", "  dead since  ", "history       ", "redrive in main by ", "a typo (of many"]
    {
        assert!(text.contains(said), "{said:?} is not in {text}");
    }
    let other = folder.json(&["event", "show", "1"]);
    assert!(!other["history"].to_string().contains("redrive"), "that named another: {other:#}");
    let (mut running, address) = serve(&folder);
    let by_server = folder.json(&["event", "show", "2", "--server", &format!("http://{address}")]);
    assert_eq!(by_server, shown);
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}

#[test]
fn every_attribute_is_kept() {
    let folder = Folder::new();
    let arguments = [
        "publish",
        "--type",
        "order.placed",
        "--data",
        "{}",
        "--topic",
        "orders",
        "--key",
        "k1",
        "--id",
        "e-1",
        "--source",
        "/shop",
        "--subject",
        "s",
        "--header",
        "a=b=c",
        "--at",
        "2999-01-01T00:00:00Z",
        "--expires",
        "1d",
    ];
    assert_eq!(folder.json(&arguments)["id"], "e-1");
    let event = folder.json(&["event", "show", "e-1"]);
    let expected = [
        ("/id", "e-1"),
        ("/type", "order.placed"),
        ("/topic", "orders"),
        ("/key", "k1"),
        ("/source", "/shop"),
        ("/subject", "s"),
        ("/headers/a", "b=c"),
        ("/available_at", "2999-01-01T00:00:00Z"),
    ];
    for (pointer, value) in expected {
        assert_eq!(event.pointer(pointer).and_then(|v| v.as_str()), Some(value), "{pointer} in {event}");
    }
    assert!(event["expires_at"].is_string());
}

#[test]
fn publishing_the_same_again_is_no_mistake_and_something_else_is() {
    let folder = Folder::new();
    let publish = |data: &str| folder.run(&["publish", "--type", "x", "--id", "1", "--data", data]);
    assert_eq!((publish("{}").code, publish("{}").code), (0, 0));
    publish("[]").assert_failed(2, &["failed to publish", "other contents", "use a new id"]);
    assert_eq!(folder.json(&["event", "list"])["events"].as_array().unwrap().len(), 1);
}

#[test]
fn bad_input_is_refused_and_nothing_is_stored() {
    let folder = Folder::new();
    folder.publish("good", "{}");
    let long_key = "k".repeat(256);
    let long_value = format!("name={}", "v".repeat(16 * 1024 - 3));
    let table: [(&[&str], &str); 8] = [
        (&["--type", ""], "the type is empty"),
        (&["--type", "x", "--key", &long_key], "the limit is 255"),
        (&["--type", "x", "--header", "ce-id=1"], "reserved prefix"),
        (&["--type", "x", "--header", "nonsense"], "NAME=VALUE"),
        (&["--type", "x", "--header", "a=1", "--header", "a=2"], "the header \"a\" is given twice"),
        (&["--type", "x", "--header", &long_value], "the headers have 16385 bytes, the limit is 16384"),
        (&["--type", "x", "--at", "tomorrow"], "write a time like"),
        (&["--type", "x", "--id", ""], "the id is empty"),
    ];
    for (arguments, expected) in table {
        let answer = folder.run(&[&["publish", "--data", "{}"], arguments].concat());
        answer.assert_failed(2, &[expected]);
    }
    let headers: Vec<String> = (0..65).map(|n| format!("--header=h{n}=")).collect();
    let mut many = vec!["publish", "--data", "{}", "--type", "x"];
    many.extend(headers.iter().map(String::as_str));
    folder.run(&many).assert_failed(2, &["there are 65 headers, the limit is 64"]);
    folder
        .run(&["publish", "--type", "x", "--data", "no json"])
        .assert_failed(2, &["--content-type text/plain"]);
    let large = vec![b'0'; 1024 * 1024 + 1];
    let arguments = ["publish", "--type", "x", "--content-type", "text/plain"];
    folder.run_with_stdin(&arguments, &large).assert_failed(2, &["larger than server.payload_max (1MiB)"]);
    assert_eq!(folder.run_with_stdin(&arguments, &large[1..]).code, 0, "the limit itself is allowed");
    // Whoever publishes is told what a lane would not take, and not whoever finds it dead.
    let lane = "topics = [\"narrow.#\"]\nto = \"nats://127.0.0.1:9?message_bytes_max=1KiB\"";
    folder.write("posthaste.toml", format!("[lanes.slim]\n{lane}\n"));
    let to =
        |topic: &str| folder.run_with_stdin(&[&arguments, &["--topic", topic][..]].concat(), &large[..2000]);
    to("narrow.x").assert_failed(2, &["lane slim does not take it", "with its headers, the limit is 768"]);
    assert_eq!(to("wide.x").code, 0, "no lane that takes less reads it");
    assert_eq!(folder.json(&["event", "list"])["events"].as_array().unwrap().len(), 3);
}

/// Straight into the store; the server's own limit is tested over REST.
#[test]
fn json_that_is_nested_too_deep_is_not_published_unless_it_is_configured_or_not_called_json() {
    let folder = Folder::new();
    let publish = |depth: usize, content_type: &[&str]| {
        let arguments = [&["publish", "--type", "x"], content_type].concat();
        folder.run_with_stdin(&arguments, ("[".repeat(depth) + &"]".repeat(depth)).as_bytes())
    };
    for content_type in [&[][..], &["--content-type", "application/vnd.shop+json; v=2"]] {
        publish(100_000, content_type).assert_failed(2, &["nested deeper than 128", "server.json_depth_max"]);
        publish(129, content_type).assert_failed(2, &["nested deeper than 128"]);
        assert_eq!(publish(128, content_type).code, 0);
    }
    assert_eq!(publish(129, &["--content-type", "text/plain"]).code, 0);
    folder.write("posthaste.toml", "[server]\njson_depth_max = 129\n");
    assert_eq!(publish(129, &[]).code, 0);
    folder.write("posthaste.toml", "[server]\njson_depth_max = 0\n");
    publish(1, &[]).assert_failed(3, &["server.json_depth_max = 0 must be a whole number from 1 to 1000000"]);
}

#[test]
fn lists_are_filtered_and_paged() {
    let folder = Folder::new();
    for n in 0..5 {
        let (key, event_type) = (format!("k{}", n % 2), if n < 3 { "a.b" } else { "a.c" });
        folder.ok(&["publish", "--type", event_type, "--key", &key, "--id", &n.to_string(), "--data", "{}"]);
    }
    let ids = |arguments: &[&str]| -> Vec<String> {
        let page = folder.json(&[&["event", "list"], arguments].concat());
        page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&[]), ["4", "3", "2", "1", "0"], "the newest first");
    assert_eq!(ids(&["--type", "a.c"]), ["4", "3"]);
    assert_eq!(ids(&["--topic", "a.*", "--key", "k1"]), ["3", "1"]);
    assert_eq!(ids(&["--id", "2", "--id", "0"]), ["2", "0"]);
    assert_eq!(ids(&["--until", "1h"]), [] as [&str; 0]);
    assert_eq!(ids(&["--since", "1h"]).len(), 5);
    let page = folder.json(&["event", "list", "--limit", "2"]);
    assert_eq!(ids(&["--limit", "2", "--after", page["next"].as_str().unwrap()]), ["2", "1"]);
}

#[test]
fn an_event_that_is_not_there_is_code_six() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    folder
        .run(&["event", "show", "nobody"])
        .assert_failed(6, &["failed to find an event with the id \"nobody\""]);
}

#[test]
fn tail_shows_what_is_there_and_what_comes() {
    let folder = Folder::new();
    folder.publish("before", "1");
    let arguments = ["event", "tail", "--type", "wanted", "--output", "json"];
    let mut running = Running(folder.command(&arguments).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    folder.publish("other", "2");
    let id = folder.publish("wanted", "3");
    let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(line["id"], id.as_str());
    running.signal("INT");
    assert_eq!(running.code(), 0);
    assert!(lines.next().is_none(), "each event once");
}
