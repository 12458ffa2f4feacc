//! Watching a connection until it is lost.

use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::Event;
use posthaste_core::redact;
use posthaste_core::telemetry::{label, metric};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tracing::{info, warn};

use super::{Live, Shared};

/// How soon to look after a sign that something is wrong.
const SOON: Duration = Duration::from_millis(20);

/// Waits until the connection is lost and answers why.
pub(super) async fn until_lost(shared: &Shared, live: &Live) -> String {
    let mut events = std::pin::pin!(live.connection.events_listener());
    let mut look = interval_at(Instant::now() + shared.monitor, shared.monitor);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_words = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Event::ConnectionBlocked(reason)) => shared.block(live, Some(redact::clean(&reason))),
                Some(Event::ConnectionUnblocked) => shared.block(live, None),
                Some(Event::Error(error)) => {
                    // A channel's end is told here as well; what it says is the channel's matter.
                    last_words = Some(redact::clean(&error.to_string()));
                    look.reset_after(SOON);
                }
                Some(_) => {}
                None => return last_words.unwrap_or_else(|| "the connection was closed".to_owned()),
            },
            () = shared.doubt.notified() => look.reset_immediately(),
            _ = look.tick() => {
                if !live.connection.status().connected() {
                    return last_words.unwrap_or_else(|| "the connection was closed".to_owned());
                }
                if let Err(why) = round_trip(shared, live).await {
                    return why;
                }
            }
        }
    }
}

/// Asks the broker for a channel and gives it back. A broker that blocks us reads nothing, so there is nothing to ask.
async fn round_trip(shared: &Shared, live: &Live) -> Result<(), String> {
    if live.blocked.borrow().is_some() {
        return Ok(());
    }
    let asked = timeout(shared.patience, live.connection.create_channel());
    let mut blocked = live.blocked.subscribe();
    tokio::select! {
        answer = asked => match answer {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if live.connection.status().connected() => {
                // No more channels, for instance: that is no reason to end the others.
                warn!(error = redact::clean(&error.to_string()), "RabbitMQ opens no channel to try the connection");
                Ok(())
            }
            Ok(Err(error)) => Err(redact::clean(&error.to_string())),
            Err(_) => Err(format!("the broker did not answer within {:?}", shared.patience)),
        },
        _ = blocked.wait_for(Option::is_some) => Ok(()),
    }
}

impl Shared {
    fn block(&self, live: &Live, reason: Option<String>) {
        let role = self.role.name();
        metrics::gauge!(metric::AMQP_BLOCKED, label::ROLE => role).set(if reason.is_some() {
            1.0
        } else {
            0.0
        });
        match &reason {
            Some(reason) => warn!(role, reason, "RabbitMQ takes nothing from publishers"),
            None => info!(role, "RabbitMQ takes events again"),
        }
        live.blocked.send_replace(reason);
    }
}
