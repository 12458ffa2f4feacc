//! What the client's errors mean, in words that say what to do.

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};
use posthaste_core::{Error, redact};

/// Why the broker closed a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker::amqp) enum Refusal {
    /// There is no such exchange or queue.
    NotFound,
    /// Our user may not do that.
    NotAllowed,
    /// It is there, but of another kind or with other arguments; or a message is too large.
    NotAsDeclared,
    /// Somebody else has it for themselves.
    Locked,
    /// Something else.
    Other,
}

/// Why the broker closed a channel, and what it said; `None` if the connection is gone, or it was no word of the broker's.
pub(in crate::broker::amqp) fn refusal(error: &lapin::Error) -> Option<(Refusal, String)> {
    let ErrorKind::ProtocolError(said) = error.kind() else { return None };
    let AMQPErrorKind::Soft(code) = said.kind() else { return None };
    let refusal = match code {
        AMQPSoftError::NOTFOUND => Refusal::NotFound,
        AMQPSoftError::ACCESSREFUSED => Refusal::NotAllowed,
        AMQPSoftError::PRECONDITIONFAILED => Refusal::NotAsDeclared,
        AMQPSoftError::RESOURCELOCKED => Refusal::Locked,
        _ => Refusal::Other,
    };
    Some((refusal, redact::clean(said.get_message().as_str())))
}

/// An error of the client while we were doing this. Everything may mend: rights and names are in other hands.
pub(in crate::broker::amqp) fn told(doing: &str, error: &lapin::Error) -> Error {
    let text = refusal(error).map_or_else(|| redact::clean(&error.to_string()), |(_, said)| said);
    Error::unavailable(text).during(doing)
}

/// Why there is no connection to this node, and what to do about it.
pub(super) fn explain(error: &lapin::Error, host: &str, port: u16, vhost: &str) -> String {
    let text = redact::clean(&error.to_string());
    let advice = match error.kind() {
        ErrorKind::ProtocolError(said) => match said.kind() {
            AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) => {
                "the user and the password of the URL are not accepted; check both, and whether this user may log in \
                 from this machine"
                    .to_owned()
            }
            AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED) => format!(
                "the virtual host {vhost:?} is missing, or this user has no rights in it; create it with rabbitmqctl \
                 add_vhost and set_permissions, or name another in the URL"
            ),
            _ => "the broker closed the connection".to_owned(),
        },
        ErrorKind::IOError(error) if is_tls(error) => {
            "the TLS handshake failed; check sslrootcert, sslcert, sslkey and the host name".to_owned()
        }
        _ => "the connection could not be made".to_owned(),
    };
    format!("RabbitMQ at {host}:{port}: {advice} ({text})")
}

fn is_tls(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}
