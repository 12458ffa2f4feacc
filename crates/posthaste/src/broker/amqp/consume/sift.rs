//! Looks through a queue of our own that holds few and small messages.

use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicGetOptions, BasicNackOptions};

/// Looks at every message of this queue, at most so many: what `takes` wants is taken out, the rest goes back to its place.
pub(super) async fn sift(
    channel: &Channel,
    queue: &str,
    most: i64,
    mut takes: impl FnMut(&[u8]) -> bool,
) -> lapin::Result<()> {
    let mut last_left = None;
    for _ in 0..most {
        let Some(message) = channel.basic_get(queue.into(), BasicGetOptions::default()).await? else { break };
        let message = message.delivery;
        if takes(&message.data) {
            channel.basic_ack(message.delivery_tag, BasicAckOptions::default()).await?;
        } else {
            last_left = Some(message.delivery_tag);
        }
    }
    if let Some(last) = last_left {
        channel.basic_nack(last, BasicNackOptions { multiple: true, requeue: true }).await?;
    }
    Ok(())
}
