//! Faults of the streams of a NATS server.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use posthaste::envelope::fresh_id;

use crate::cli::folder::Folder;
use crate::doctor::seen::{Seen, doctor};
use crate::http_process::skip;

/// A name of its own at the server, which is also the prefix of subjects.
struct Place {
    name: String,
    url: String,
    folder: Folder,
    jetstream: Context,
}

impl Place {
    /// `None`: there is no server, and the trial was said to be skipped.
    async fn new(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_NATS";
        let Some(url) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        let (url, name) = (url.into_string().unwrap(), format!("doctor-{}", fresh_id()));
        let jetstream = jetstream::new(async_nats::connect(&url).await.unwrap());
        Some(Self { name, url, folder: Folder::new(), jetstream })
    }

    /// What the doctor says of a lane with these settings.
    fn look(&self, settings: &str) -> Seen {
        let to = format!("{}?{settings}", self.url);
        self.folder.write("posthaste.toml", format!("[lanes.main]\nto = \"{to}\"\n"));
        doctor(&self.folder, &[])
    }

    /// A stream for all subjects of this place, which is otherwise like this.
    fn stream(&self, config: Config) -> Config {
        Config { name: self.name.clone(), subjects: vec![format!("{}.>", self.name)], ..config }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_missing_is_found_by_its_name_and_by_its_subjects() {
    let trial = "nats::a_stream_that_is_missing_is_found_by_its_name_and_by_its_subjects";
    let Some(place) = Place::new(trial).await else { return };
    let name = &place.name;
    let by_prefix = format!("prefix={name}");
    let by_name = format!("{by_prefix}&stream={name}&replicas=3");
    let command = place.look(&by_name).bad("main: stream", "failure").command();
    assert_eq!(
        command,
        format!("nats stream add {name} --subjects '{name}.>' --storage file --replicas 3 --defaults")
    );
    let command = place.look(&by_prefix).bad("main: stream", "failure").command();
    assert!(command.contains("nats stream add posthaste") && command.contains(name), "{command}");
    // What the command does, which need not be installed here.
    place.jetstream.create_stream(place.stream(Config::default())).await.unwrap();
    for settings in [&by_name, &by_prefix] {
        place.look(settings).all_ok();
    }
    place.look("").ok("main: stream");
    place.jetstream.delete_stream(name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_loses_events_is_found() {
    let Some(place) = Place::new("nats::a_stream_that_loses_events_is_found").await else { return };
    let (name, settings) = (&place.name, format!("prefix={}", place.name));
    let table = [
        (Config { storage: StorageType::Memory, ..Config::default() }, "failure", "in memory"),
        (Config { max_messages: 10, ..Config::default() }, "warning", "oldest"),
        (Config { max_age: Duration::from_secs(3_600), ..Config::default() }, "warning", "3600s"),
        (Config { retention: RetentionPolicy::Interest, ..Config::default() }, "warning", "interest"),
    ];
    for (config, verdict, says) in table {
        place.jetstream.create_stream(place.stream(config)).await.unwrap();
        let seen = place.look(&settings);
        let _ = seen.bad(&format!("stream {name}"), verdict);
        assert!(seen.text().contains(says), "{}", seen.text());
        place.jetstream.delete_stream(name).await.unwrap();
    }
    let limited = Config { max_messages: 10, ..Config::default() };
    place.jetstream.create_stream(place.stream(limited.clone())).await.unwrap();
    let command = place.look(&settings).bad(&format!("stream {name}"), "warning").command();
    assert_eq!(command, format!("nats stream edit {name} --discard new --force"));
    // What the command does.
    let mended = Config { discard: DiscardPolicy::New, ..limited };
    place.jetstream.update_stream(&place.stream(mended)).await.unwrap();
    place.look(&settings).all_ok();
    place.jetstream.delete_stream(name).await.unwrap();
}
