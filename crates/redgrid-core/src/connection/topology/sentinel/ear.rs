//! What a sentinel publishes of its own accord.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use crate::connection::node::Node;
use crate::connection::topology::replicated::Replicated;
use crate::connection::{ChannelKind, Push, Server};

/// Where a sentinel publishes that it names another primary.
const SWITCHED: &str = "+switch-master";

/// Where the sentinel that leads a failover publishes which replica it has chosen, 50 to 100 ms before it promotes that one.
const CHOSEN: &str = "+selected-slave";

/// Listens at one sentinel.
pub(super) struct Ear {
    pub(super) node: Arc<Node>,
    /// What the sentinels call the primary.
    pub(super) name: String,
    pub(super) replicated: Arc<Replicated>,
    /// Where it is made known that the sentinels are to be asked.
    pub(super) switched: Arc<Notify>,
    /// After a failed subscription: each costs a connection.
    pub(super) pause: Duration,
}

impl Ear {
    /// Listens for as long as it is not aborted.
    pub(super) async fn listen(self) {
        let mut pushes: mpsc::UnboundedReceiver<Push> = self.node.pushes();
        // A user who may not hear which replica is chosen learns of it at the next look. It is asked for once: a refusal costs
        // the connection, and the other subscription with it.
        let mut hears_choices = true;
        loop {
            match self.subscribe(SWITCHED).await {
                Some(true) => {
                    self.switched.notify_one();
                    hears_choices = hears_choices && self.subscribe(CHOSEN).await != Some(false);
                }
                _ => tokio::time::sleep(self.pause).await,
            }
            loop {
                match pushes.recv().await {
                    Some(Push::Message { channel, payload }) => {
                        if channel == CHOSEN && is_about(&payload, &self.name) {
                            self.replicated.hold_back();
                        }
                        self.switched.notify_one();
                    }
                    Some(
                        Push::ShardedMessage { .. }
                        | Push::PatternMessage { .. }
                        | Push::Ended { .. }
                        | Push::Lost { .. },
                    ) => {}
                    Some(Push::Gap | Push::EventsGap | Push::PatternsGap) => break,
                    None => return,
                }
            }
        }
    }

    /// Whether the subscription is in force, or was refused; `None` where it failed.
    async fn subscribe(&self, channel: &'static str) -> Option<bool> {
        let refused = self.node.subscribe(ChannelKind::Plain, vec![Bytes::from_static(channel.as_bytes())]).await;
        refused.ok().map(|refused| refused.is_empty())
    }
}

/// Whether what a sentinel says of a replica is about one of this primary: `slave <name> <ip> <port> @ <primary> <ip> <port>`.
fn is_about(told: &[u8], primary: &str) -> bool {
    let words: Vec<_> = told.split(|byte| *byte == b' ').collect();
    matches!(words[..], [.., b"@", name, _, _] if name == primary.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::is_about;

    #[test]
    fn a_choice_is_about_the_primary_that_it_names() {
        let told = b"slave 127.0.0.1:6380 127.0.0.1 6380 @ mymaster 127.0.0.1 6379";
        assert!(is_about(told, "mymaster"));
        assert!(!is_about(told, "another") && !is_about(told, "127.0.0.1") && !is_about(b"", "mymaster"));
    }
}
