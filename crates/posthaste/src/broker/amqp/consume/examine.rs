//! What goes wrong in practice with exchanges and queues: told without making or changing any.
//!
//! AMQP cannot describe a queue. But the broker compares whoever declares one that is there with what it is, and says what
//! differs; so what is there, and only that, is declared as it should be.

use std::time::Duration;

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, ExchangeKind};
use posthaste_core::Result;
use posthaste_core::envelope::fresh_id;
use posthaste_core::findings::{Finding, Mend, asked};
use posthaste_core::lane::Order;
use tokio::time::timeout;

use super::index;
use super::topology::{Topology, dead_arguments, retry_arguments};
use crate::broker::amqp::AmqpBroker;
use crate::broker::amqp::link::{Link, Refusal, refusal, told};
use crate::broker::amqp::mapping::Mapping;
use crate::broker::amqp::naming::Names;
use crate::broker::amqp::settings::Unrouted;

/// How long each look may take, with the connection that it may have to make.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// How long the broker may take to confirm messages to nobody.
const CONFIRM_WITHIN: Duration = Duration::from_secs(3);

/// How something is that was to be there.
enum State {
    AsWanted,
    Missing,
    /// The broker's words.
    Otherwise(String),
    /// This user may not ask.
    Hidden,
}

impl AmqpBroker {
    /// Everything about where events are published to.
    pub(in crate::broker::amqp) async fn examine_publishing(&self) -> Vec<Finding> {
        let mut found = vec![self.unrouted_fate()];
        // With another mapping, which exchanges there will be is known when there are events.
        if matches!(self.settings.publishing.mapping, Mapping::Topic) {
            found.extend(asked("exchange", LOOK_WITHIN, async { Ok(vec![self.exchange().await?]) }).await);
        }
        // Last: a broker with an alarm reads nothing more of this connection.
        found.extend(asked("confirms", LOOK_WITHIN, async { Ok(vec![self.confirms().await?]) }).await);
        found
    }

    /// Looks at the queues of this group, whose topics are remembered at the broker: whether they are there, durable, of the
    /// wanted type, and bring retries and dead letters to where they belong. Changes nothing.
    ///
    /// # Errors
    /// `Unavailable` while the broker is away.
    pub async fn examine_group(&self, group: &str) -> Result<Vec<Finding>> {
        let naming = &self.settings.consuming.naming;
        let channel = self.consume.link.channel().await?.channel;
        let topics = index::look(&channel, &naming.index(group)).await?;
        if topics.is_empty() {
            let seen =
                "no consumer of this name has ever read from this broker, or its list of topics is gone";
            let mend = Mend::words("look at the name; else start the consumer, which makes what it needs");
            return Ok(vec![Finding::warning(format!("group {group}"), seen, mend)]);
        }
        let mut found = Vec::new();
        for names in naming.of_all(group, &topics, self.consume.tiers.times().len())? {
            found.extend(self.subscription(&names).await?);
        }
        Ok(found)
    }

    /// Whether the broker takes and confirms what is published. It tells a connection of an alarm only when that publishes, and
    /// confirms what it read until then; so two messages are sent to a queue that cannot be there, and the broker forgets them.
    async fn confirms(&self) -> Result<Finding> {
        const CHECK: &str = "confirms";
        let channel = fresh(&self.publishing).await?;
        let failed = |error: lapin::Error| told("publish to nobody", &error);
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(failed)?;
        let key = format!("posthaste-doctor-{}", fresh_id());
        let options = BasicPublishOptions::default();
        let publish = async || {
            let properties = BasicProperties::default();
            channel.basic_publish("".into(), key.as_str().into(), options, b"", properties).await?.await
        };
        let published = async {
            publish().await?;
            publish().await
        };
        Ok(match timeout(CONFIRM_WITHIN, published).await {
            Ok(Ok(_)) => Finding::ok(CHECK, "the broker confirms what it takes"),
            Ok(Err(error)) if matches!(refusal(&error), Some((Refusal::NotAllowed, _))) => {
                Finding::ok(CHECK, "this user may not publish to nobody, so that this was not tried")
            }
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => {
                let why = self.publishing.blocked().unwrap_or_else(|| "it does not say why".to_owned());
                Finding::failure(
                    CHECK,
                    format!("the broker takes nothing from publishers: {why}"),
                    Mend::words("free what it lacks, memory or disk (rabbitmqctl status), and it goes on"),
                )
            }
        })
    }

    fn unrouted_fate(&self) -> Finding {
        match self.settings.publishing.unrouted {
            Unrouted::Drop => Finding::warning(
                "unrouted events",
                "an event that no queue takes counts as delivered, and is lost (unrouted=drop)",
                Mend::words("take unrouted=drop out of the URL; the default is retry"),
            ),
            _ => Finding::ok("unrouted events", "an event that no queue takes is not lost"),
        }
    }

    async fn exchange(&self) -> Result<Finding> {
        let (name, kind) = (&self.settings.publishing.exchange, &self.settings.consuming.exchange_type);
        let check = "exchange";
        let declare = format!("rabbitmqadmin declare exchange name={name} type={kind} durable=true");
        Ok(match exchange(&self.publishing, name, kind).await? {
            State::AsWanted => Finding::ok(check, format!("{name:?} is there and durable")),
            State::Hidden => Finding::ok(check, format!("{name:?} is there; more this user may not see")),
            State::Missing if self.settings.publishing.create_exchange => {
                Finding::ok(check, format!("{name:?} is not there yet; it is created with the first event"))
            }
            State::Missing => {
                let seen = format!("there is no exchange {name:?}, and the lane waits for it");
                Finding::failure(check, seen, Mend::command(declare))
            }
            State::Otherwise(said) => {
                let seen = format!(
                    "{name:?} is not as it should be, and may be gone after a restart of the broker ({said})"
                );
                let mend = format!("rabbitmqadmin delete exchange name={name} && {declare}");
                Finding::failure(check, seen, Mend::command(mend))
            }
        })
    }

    /// A group's queue for one topic, and what belongs to it.
    async fn subscription(&self, names: &Names) -> Result<Vec<Finding>> {
        let (link, consuming) = (&self.consume.link, &self.settings.consuming);
        let topology = |order| Topology {
            publishing: &self.settings.publishing,
            consuming,
            tiers: &self.consume.tiers,
            order,
        };
        let mut state = queue(link, &names.queue, topology(Order::PerKey).arguments(names)).await?;
        let mut well = "durable, one consumer at a time";
        if matches!(state, State::Otherwise(_)) {
            // Only whoever consumes knows which order it wants; either is well.
            let unordered = queue(link, &names.queue, topology(Order::None).arguments(names)).await?;
            if matches!(unordered, State::AsWanted) {
                (state, well) = (unordered, "durable, consumers share it in no order");
            }
        }
        let mut found = vec![judged(&names.queue, state, well)];
        let state = queue(link, &names.dead, dead_arguments(consuming.queue_type)).await?;
        found.push(judged(&names.dead, state, "durable"));
        for (name, time) in names.retry.iter().zip(self.consume.tiers.times()) {
            let arguments = retry_arguments(consuming.retry_queue_type, *time, &names.queue);
            found.push(judged(name, queue(link, name, arguments).await?, "durable"));
        }
        Ok(found)
    }
}

fn judged(name: &str, state: State, well: &str) -> Finding {
    let check = format!("queue {name}");
    match state {
        State::AsWanted => Finding::ok(check, well),
        State::Hidden => Finding::ok(check, "is there; more this user may not see"),
        State::Missing => Finding::failure(
            check,
            "it is missing: what was published meanwhile did not reach this group",
            Mend::words("start the consumer, which makes it, and replay what was missed"),
        ),
        State::Otherwise(said) => Finding::failure(
            check,
            format!("it is not as the settings of the URL want it, and may lose events ({said})"),
            Mend::words(format!(
                "set the URL back to what it was made with; or stop the consumer, empty the queue, run `rabbitmqctl \
                 delete_queue {name}` and start the consumer, which makes it anew"
            )),
        ),
    }
}

/// A channel that a refusal may close.
async fn fresh(link: &Link) -> Result<Channel> {
    Ok(link.channel().await?.channel)
}

async fn exchange(link: &Link, name: &str, kind: &str) -> Result<State> {
    let declared = |passive: bool| async move {
        let options = ExchangeDeclareOptions { passive, durable: true, ..ExchangeDeclareOptions::default() };
        let kind = ExchangeKind::Custom(kind.to_owned());
        let channel = fresh(link).await?;
        state(
            channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await,
            "exchange",
            name,
        )
    };
    match declared(true).await? {
        State::AsWanted => declared(false).await,
        other => Ok(other),
    }
}

async fn queue(link: &Link, name: &str, arguments: FieldTable) -> Result<State> {
    let declared = |passive: bool| {
        let arguments = arguments.clone();
        async move {
            let options = QueueDeclareOptions { passive, durable: true, ..QueueDeclareOptions::default() };
            let channel = fresh(link).await?;
            state(channel.queue_declare(name.into(), options, arguments).await.map(drop), "queue", name)
        }
    };
    match declared(true).await? {
        State::AsWanted => declared(false).await,
        other => Ok(other),
    }
}

fn state(answer: lapin::Result<()>, what: &str, name: &str) -> Result<State> {
    let Err(error) = answer else { return Ok(State::AsWanted) };
    match refusal(&error) {
        Some((Refusal::NotFound, _)) => Ok(State::Missing),
        Some((Refusal::NotAsDeclared, said)) => Ok(State::Otherwise(said)),
        Some((Refusal::NotAllowed, _)) => Ok(State::Hidden),
        _ => Err(told(&format!("look at the {what} {name:?}"), &error)),
    }
}
