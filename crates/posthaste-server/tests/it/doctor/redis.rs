//! Faults of a Redis that is to keep events.

use std::sync::Arc;

use ::redis::Connection;
use posthaste_testservers::{Interrupt, Kind, Run, Server};

use crate::cli::folder::Folder;
use crate::doctor::seen::{Seen, doctor};
use crate::http_process::skip;

/// A server of the test's own: what is wrong with it is wrong for everybody.
struct Place {
    server: Server,
    folder: Folder,
    connection: Connection,
}

impl Place {
    /// `None`: there is no server, and the trial was said to be skipped.
    fn new(trial: &str) -> Option<Self> {
        if !Kind::Redis.is_installed() {
            skip::say(trial, "Redis is not installed");
            return None;
        }
        let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
        let mut server = Server::new(Kind::Redis, &run, None).unwrap();
        server.start().unwrap();
        let connection = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
        Some(Self { server, folder: Folder::new(), connection })
    }

    /// What the doctor says of a lane with these settings.
    fn look(&self, settings: &str) -> Seen {
        let to = format!("{}?{settings}", self.server.url());
        self.folder.write("posthaste.toml", format!("[lanes.main]\nto = \"{to}\"\n"));
        doctor(&self.folder, &[])
    }

    fn tell(&mut self, words: &[&str]) {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]).exec(&mut self.connection).unwrap();
    }

    /// Does what a command would that begins with `redis-cli`, which need not be installed here.
    fn run(&mut self, command: &str) {
        let port = self.server.url().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
        let words = command.strip_prefix(&format!("redis-cli -h 127.0.0.1 -p {port} ")).unwrap();
        self.tell(&words.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn a_server_that_loses_events_is_found_and_mended() {
    let Some(mut place) = Place::new("redis::a_server_that_loses_events_is_found_and_mended") else { return };
    place.look("").all_ok();
    for (settings, check, verdict) in [
        (&["appendonly", "no"][..], "durability", "failure"),
        (&["appendfsync", "everysec"], "durability", "warning"),
        (&["maxmemory", "1gb", "maxmemory-policy", "allkeys-lru"], "memory", "failure"),
        (&["maxmemory-policy", "volatile-ttl"], "memory", "warning"),
    ] {
        place.tell(&[&["CONFIG", "SET"], settings].concat());
        let command = place.look("").bad(check, verdict).command();
        place.run(&command);
        place.look("").all_ok();
    }
}

#[test]
fn what_keeps_events_from_being_taken_is_found() {
    let Some(mut place) = Place::new("redis::what_keeps_events_from_being_taken_is_found") else { return };
    place.look("replicas=2").bad("main: replicas", "failure").words();
    place.look("stream=all&prefix=shop:").ok("main: stream");
    place.tell(&["SET", "shop:all", "x"]);
    let words = place.look("stream=all&prefix=shop:").bad("main: stream", "failure").words();
    assert!(words.contains("stream=NAME"), "{words}");
    place.tell(&["DEL", "shop:all"]);
    place.tell(&["ACL", "SETUSER", "some", "on", ">hunter2", "~*", "+@all", "-config", "-info"]);
    let to = place.server.url().replace("redis://", "redis://some:hunter2@");
    place.folder.write("posthaste.toml", format!("[lanes.main]\nto = \"{to}\"\n"));
    let seen = doctor(&place.folder, &[]);
    seen.all_ok();
    assert!(seen.text().contains("may not see") && !seen.text().contains("hunter2"), "{}", seen.text());
}
