//! Events that a sentinel publishes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::connection::node::Node;
use crate::connection::topology::replicated::Replicated;
use crate::connection::{ChannelKind, Push, Server};

/// The channel on which a sentinel publishes a new primary.
const SWITCHED: &str = "+switch-master";

/// The channel on which the leading sentinel publishes the replica chosen in a failover.
///
/// The message precedes the promotion by 50 to 100 ms.
const CHOSEN: &str = "+selected-slave";

/// Subscribes at a sentinel. Calls [`Replicated::hold_back`] when a replica of the primary `name`
/// is chosen, and notifies `switched` when the sentinels must be queried.
///
/// `pause` follows a failed or rejected subscription. After a failure without a reply, the
/// connection is replaced, which must not happen too often.
pub(super) async fn listen(
    node: Arc<Node>,
    name: String,
    replicated: Arc<Replicated>,
    switched: Arc<Notify>,
    pause: Duration,
) {
    let mut pushes = node.pushes();
    // If the user has no permission for [`CHOSEN`], the choice of a replica is detected at the next
    // refresh. A rejected subscription to that channel is not repeated.
    let mut may_subscribe_to_choices = true;
    loop {
        if subscribe(&node, SWITCHED).await == Some(true) {
            switched.notify_one();
            may_subscribe_to_choices = may_subscribe_to_choices && subscribe(&node, CHOSEN).await != Some(false);
        } else {
            tokio::time::sleep(pause).await;
        }
        loop {
            match pushes.recv().await {
                Some(Push::Message { channel, payload }) => {
                    if channel == CHOSEN && is_about(&payload, &name) {
                        replicated.hold_back();
                    }
                    switched.notify_one();
                }
                Some(Push::Gap | Push::EventsGap | Push::PatternsGap) => break,
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// Subscribes to a channel. Returns true if the sentinel confirmed the subscription, false if it
/// rejected the subscription, and `None` if the request failed.
async fn subscribe(node: &Node, channel: &'static str) -> Option<bool> {
    let refused = node.subscribe(ChannelKind::Plain, vec![Bytes::from_static(channel.as_bytes())]).await;
    refused.ok().map(|refused| refused.is_empty())
}

/// Returns whether a message of [`CHOSEN`] is about a replica of this primary.
///
/// The message is `slave <name> <ip> <port> @ <primary> <ip> <port>`.
fn is_about(message: &[u8], primary: &str) -> bool {
    let parts: Vec<_> = message.split(|byte| *byte == b' ').collect();
    matches!(parts[..], [.., b"@", name, _, _] if name == primary.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::is_about;

    #[test]
    fn a_choice_is_about_the_primary_that_it_names() {
        let message = b"slave 127.0.0.1:6380 127.0.0.1 6380 @ mymaster 127.0.0.1 6379";
        assert!(is_about(message, "mymaster"));
        assert!(!is_about(message, "another") && !is_about(message, "127.0.0.1") && !is_about(b"", "mymaster"));
    }
}
