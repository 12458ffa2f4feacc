//! Kafka: a topic for each lane.

use std::fs;

use posthaste::broker::kafka::KafkaBroker;
use posthaste_testservers::Kind;

use super::{Between, Opened};

pub(super) const KAFKA: Between = Between {
    name: "kafka",
    kind: Kind::Kafka,
    scheme: "kafka:",
    url: |address| format!("kafka://{address}"),
    // Clients go where the server says that it is.
    announce: Some(|server, address| {
        server.stop()?;
        let file = server.folder().join("server.properties");
        let settings = fs::read_to_string(&file)?;
        let lines = settings.lines().map(|line| match line.strip_prefix("advertised.listeners=") {
            Some(_) => format!("advertised.listeners=PLAINTEXT://{address}\n"),
            None => format!("{line}\n"),
        });
        fs::write(&file, lines.collect::<String>())?;
        Ok(server.start()?)
    }),
    open: |url, which| {
        let settings = "topic=events&create_topics=4&linger=1ms&ack_timeout=3s&connect_timeout=2s&reconnect_max=1s\
                        &session_timeout=4s";
        Ok(Opened::new(KafkaBroker::at(&format!("{url}?prefix=nemesis-{}.&{settings}", which.name()))?))
    },
};
