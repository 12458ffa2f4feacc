//! A server, a stream and subjects of a test's own, and a look into them.

use std::net::SocketAddr;
use std::sync::Arc;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::{self, stream};
use posthaste::broker::nats::NatsBroker;
use posthaste_testkit::harness::Settings;
use posthaste_testservers::{Interrupt, Kind, Run, Server};

pub(crate) use crate::sending::{SOON, blocking, event, send, until};

/// What a test looks at the server with: its own connection, and a stream that takes what begins with its name.
pub(crate) struct Stand {
    pub(crate) url: String,
    /// The stream, and what its subjects begin with.
    pub(crate) name: String,
    pub(crate) jetstream: jetstream::Context,
    server: Option<Server>,
}

impl Stand {
    /// On the server of the run; `None`, said on stderr, where there is none.
    pub(crate) async fn shared(trial: &str) -> Option<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests learn from the environment where their servers are"
        )]
        let url = std::env::var("POSTHASTE_TEST_NATS");
        let Ok(url) = url else {
            assert!(!Settings::from_env().all_required, "{trial} needs POSTHASTE_TEST_NATS");
            eprintln!("skipped: {trial}: POSTHASTE_TEST_NATS is not set");
            return None;
        };
        let stand = Self::at(url, None).await;
        stand.make(stream::Config::default()).await;
        Some(stand)
    }

    /// On a server of the test's own, with this after its settings; `None`, said on stderr, where it cannot be had. It has no
    /// stream yet.
    pub(crate) async fn private(trial: &str, settings: &str) -> Option<Self> {
        let server = server(trial, |text| format!("{text}{settings}\n"))?;
        Some(Self::at(server.url(), Some(server)).await)
    }

    pub(crate) async fn at(url: String, server: Option<Server>) -> Self {
        let name = format!("t-{}", posthaste::envelope::fresh_id());
        Self { jetstream: connect(&url).await, url, name, server }
    }

    /// Makes the stream, with this about it.
    pub(crate) async fn make(&self, config: stream::Config) {
        let (name, subjects) = (self.name.clone(), vec![format!("{}.>", self.name)]);
        self.jetstream.create_stream(stream::Config { name, subjects, ..config }).await.unwrap();
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("this test has a server of its own")
    }

    /// Connects anew: after a restart of the server.
    pub(crate) async fn reconnect(&mut self) {
        self.jetstream = connect(&self.url).await;
    }

    /// The server as Posthaste sees it, with the stand's subjects and these settings.
    pub(crate) fn open(&self, settings: &str) -> NatsBroker {
        self.open_at(&self.url, settings)
    }

    pub(crate) fn open_at(&self, url: &str, settings: &str) -> NatsBroker {
        let always = format!("prefix={}&reconnect_max=2s&ack_wait=3s", self.name);
        NatsBroker::at(&format!("{url}?{always}&{settings}")).unwrap()
    }

    /// Everything that is in the stream.
    pub(crate) async fn messages(&self) -> Vec<StreamMessage> {
        self.messages_in(&self.name).await
    }

    async fn messages_in(&self, stream: &str) -> Vec<StreamMessage> {
        let mut stream = self.jetstream.get_stream(stream).await.unwrap();
        let last = stream.info().await.unwrap().state.last_sequence;
        let mut messages = Vec::new();
        for sequence in 1..=last {
            messages.push(stream.get_raw_message(sequence).await.unwrap());
        }
        messages
    }

    /// The ids of everything that is in the stream.
    pub(crate) async fn ids(&self) -> Vec<String> {
        self.ids_in(&self.name).await
    }

    /// The same of another stream.
    pub(crate) async fn ids_in(&self, stream: &str) -> Vec<String> {
        let id = |message: &StreamMessage| message.headers.get("Nats-Msg-Id").unwrap().to_string();
        self.messages_in(stream).await.iter().map(id).collect()
    }
}

/// A server with these settings, made of the usual ones; `None`, said on stderr, where it cannot be had.
pub(crate) fn server(trial: &str, settings: impl FnOnce(String) -> String) -> Option<Server> {
    if !Kind::Nats.is_installed() {
        assert!(!Settings::from_env().all_required, "nats is not installed");
        eprintln!("skipped: {trial}: nats is not installed");
        return None;
    }
    Some(blocking(|| {
        let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
        let mut server = Server::new(Kind::Nats, &run, None).unwrap();
        server.start().unwrap();
        server.stop().unwrap();
        let file = server.folder().join("nats.conf");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, settings(text)).unwrap();
        server.start().unwrap();
        server
    }))
}

/// Connects as whoever tests: a server with users knows this one.
async fn connect(url: &str) -> jetstream::Context {
    let options =
        async_nats::ConnectOptions::with_user_and_password("admin".to_owned(), "hunter2".to_owned());
    jetstream::new(options.connect(url).await.unwrap())
}

/// The address in a URL of a server of ours.
pub(crate) fn address(url: &str) -> SocketAddr {
    url.rsplit('/').next().unwrap().parse().unwrap()
}
