//! What errors of the client and of the brokers mean, in words that say what to do.

use posthaste_core::redact;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// Who is to blame for what went wrong with a message, or with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker::kafka) enum Fault {
    /// Nobody: a broker is away or busy. What was asked may have been done all the same.
    Away,
    /// Nobody said in time what became of it.
    Late,
    /// There is no such topic.
    Missing,
    /// The message, or the batch that it was in, is larger than the topic takes.
    TooLarge,
    /// The message will never be taken.
    Rejected,
    /// Whoever gives out rights.
    Forbidden,
    /// The producer can go on no longer, and another one can.
    Fatal,
}

/// What an error means.
pub(in crate::broker::kafka) fn fault(code: Code) -> Fault {
    match code {
        Code::MessageTimedOut
        | Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::TimedOutQueue
        | Code::PurgeInflight
        | Code::PurgeQueue => Fault::Late,
        Code::UnknownTopic
        | Code::UnknownPartition
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopicId => Fault::Missing,
        Code::MessageSizeTooLarge | Code::InvalidMessageSize => Fault::TooLarge,
        Code::InvalidMessage
        | Code::InvalidTopic
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::UnsupportedForMessageFormat => Fault::Rejected,
        Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::PolicyViolation => Fault::Forbidden,
        Code::Fatal
        | Code::Fenced
        | Code::InvalidProducerEpoch
        | Code::OutOfOrderSequenceNumber
        | Code::UnknownProducerId
        | Code::InvalidProducerIdMapping => Fault::Fatal,
        _ => Fault::Away,
    }
}

/// An error in words, and what to do about it.
pub(in crate::broker::kafka) fn words(code: Code) -> String {
    let advice = match code {
        Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism => {
            "look at user, password and sasl of the URL"
        }
        Code::TopicAuthorizationFailed => "give the user of the URL the right to write to the topic",
        Code::ClusterAuthorizationFailed => {
            "give the user of the URL the right to it (IdempotentWrite, and Create for create_topics)"
        }
        Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend => {
            "fewer replicas are in sync than min.insync.replicas wants; look which brokers are away"
        }
        Code::LeaderNotAvailable | Code::NotLeaderForPartition => "the partition has no leader at the moment",
        Code::KafkaStorageError => "a broker cannot write to its disk",
        Code::Resolve => "no host of the URL has an address; look at its hosts",
        Code::AllBrokersDown | Code::BrokerTransportFailure | Code::OperationTimedOut => {
            "no broker can be reached; look at the hosts of the URL, and at the addresses that the brokers advertise"
        }
        _ => "",
    };
    let said = redact::clean(&KafkaError::Global(code).to_string());
    let said = said.strip_prefix("Global error: ").unwrap_or(&said);
    if advice.is_empty() { said.to_owned() } else { format!("{said}: {advice}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_meaning_and_says_what_to_do() {
        for (code, expected) in [
            (Code::BrokerTransportFailure, Fault::Away),
            (Code::NotEnoughReplicas, Fault::Away),
            (Code::MessageTimedOut, Fault::Late),
            (Code::UnknownTopicOrPartition, Fault::Missing),
            (Code::MessageSizeTooLarge, Fault::TooLarge),
            (Code::InvalidRecord, Fault::Rejected),
            (Code::TopicAuthorizationFailed, Fault::Forbidden),
            (Code::Fatal, Fault::Fatal),
        ] {
            assert_eq!(fault(code), expected, "{code:?}");
        }
        assert!(words(Code::NotEnoughReplicas).contains("min.insync.replicas"));
        let said = words(Code::BrokerTransportFailure);
        assert!(said.contains("advertise") && !said.contains("Global"), "{said}");
    }
}
