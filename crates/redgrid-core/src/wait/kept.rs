//! Messages of the channels of an object, kept for one reader, who is told of those that he misses.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::channel::Registration;
use super::tap::{Tap, Tapped};
use crate::connection::Client;
use crate::error::ServerError;

/// What is published on channels of one slot from now on, for one reader; made by [`Client::messages`]. Dropped, the channels are heard no more. It does
/// not keep the client.
pub struct Messages {
    tap: Arc<Tap>,
    channels: Vec<Bytes>,
    _places: Vec<Registration>,
}

/// What came of [`Messages`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A message, and the place of its channel among those that were asked for.
    Message {
        /// The place of its channel.
        channel: usize,
        /// What was published.
        payload: Bytes,
    },
    /// Nobody listened for a while: what was published then is not told.
    Gap,
    /// The reader was slow, and so many messages were not kept.
    Missed(u64),
    /// The server refuses a channel: nothing comes of it any more.
    Denied,
}

impl Client {
    /// Hears `channels`, which scripts publish in the slot of `key`, and keeps `kept` messages for who reads. Completes when all of them are in force.
    ///
    /// # Errors
    ///
    /// [`ServerError`] where they are not in time, the server refuses one, or the client is shut down meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, nothing is heard.
    pub async fn messages(&self, channels: Vec<Bytes>, key: &Bytes, kept: usize) -> Result<Messages, ServerError> {
        let hub = &self.core().hub;
        let at = |tap: &Arc<Tap>| channels.iter().map(|channel| hub.tap_in_slot(tap, channel.clone(), key)).collect();
        let (tap, places) = self.tapped(kept, at).await?;
        Ok(Messages { tap, channels, _places: places })
    }
}

impl Messages {
    /// What comes next; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Told>> {
        loop {
            return Poll::Ready(Some(match std::task::ready!(self.tap.poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Tapped::Message { channel, payload }) => {
                    let Some(channel) = self.channels.iter().position(|known| *known == channel) else { continue };
                    Told::Message { channel, payload }
                }
                Some(Tapped::Gap) => Told::Gap,
                Some(Tapped::Missed(missed)) => Told::Missed(missed),
                Some(Tapped::Denied(_)) => Told::Denied,
            }));
        }
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messages").field("channels", &self.channels).finish_non_exhaustive()
    }
}
