//! Changes of a queue by concurrent tasks of one process. One idempotent request sends them all.

use bytes::Bytes;
use redgrid_core::author::BatchExecutor;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, ServerError};

use crate::keys::Keys;
use crate::message::{MessageId, Receipt};

/// The maximum number of changes in a batch, and their approximate maximum size in bytes.
const MAX_BATCH: (usize, usize) = (500, 4 << 20);

/// One change: its operation and arguments, as in change.lua.
pub type Change = Vec<Bytes>;

/// The server's reply to one change.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only the crates above this one use it.
pub enum ChangeReply {
    /// The message was pushed.
    New(MessageId),
    /// A message with the same deduplication id was pushed before.
    Duplicate(MessageId),
    /// The message exceeds this limit, in bytes.
    TooLarge(u64),
    /// The queue has this maximum number of messages.
    Full(u64),
    /// The server is out of memory. Contains its error message.
    NoMemory(String),
    /// The change was executed.
    Done,
    /// The message does not exist.
    Gone,
    /// The receipt is not that of the last delivery, or the message is in another state.
    Stale,
    /// The number of changed messages.
    Count(u64),
}

impl ChangeReply {
    pub(crate) fn read(text: &[u8]) -> Option<ChangeReply> {
        let text = std::str::from_utf8(text).ok()?;
        let (operation, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match operation {
            "new" => ChangeReply::New(rest.parse().ok()?),
            "known" => ChangeReply::Duplicate(rest.parse().ok()?),
            "large" => ChangeReply::TooLarge(rest.parse().ok()?),
            "full" => ChangeReply::Full(rest.parse().ok()?),
            "memory" => ChangeReply::NoMemory(rest.to_owned()),
            "done" => ChangeReply::Done,
            "gone" => ChangeReply::Gone,
            "stale" => ChangeReply::Stale,
            count => ChangeReply::Count(count.parse().ok()?),
        })
    }
}

/// Returns a change of a received message.
pub fn receipt_change(operation: &'static str, receipt: &Receipt, more: Option<Bytes>) -> Change {
    let args = [Bytes::from_static(operation.as_bytes()), receipt.id.arg(), receipt.token.clone()];
    args.into_iter().chain(more).collect()
}

/// Sends the changes of all tasks of a client.
pub(crate) struct ChangeExecutor {
    client: Client,
    keys: std::sync::Arc<Keys>,
}

impl ChangeExecutor {
    pub(crate) fn new(client: &Client, keys: &std::sync::Arc<Keys>) -> Self {
        ChangeExecutor { client: client.clone(), keys: std::sync::Arc::clone(keys) }
    }
}

impl BatchExecutor for ChangeExecutor {
    type Request = Vec<Change>;
    type Reply = Result<Vec<ChangeReply>, ServerError>;

    fn max_prefix<'a>(&self, requests: impl Iterator<Item = &'a Self::Request>) -> usize {
        let mut changes = 0;
        let mut bytes = 0;
        let fits = requests.take_while(|request| {
            changes += request.len();
            bytes += request.iter().flatten().map(Bytes::len).sum::<usize>();
            changes <= MAX_BATCH.0 && bytes <= MAX_BATCH.1
        });
        fits.count()
    }

    async fn execute(&self, batch: Vec<Self::Request>, until: Instant) -> Vec<Self::Reply> {
        let args = batch.iter().flatten().flatten().cloned();
        let request = args.fold(self.keys.change(), |request, arg| request.arg(arg));
        let replies: Result<Vec<Bytes>, ServerError> = self.client.run_exactly_once_until(request, until).await;
        let mut replies = match replies {
            Ok(replies) => replies.into_iter(),
            Err(error) => return vec![Err(error); batch.len()],
        };
        let read = |text: Bytes| {
            let got = || String::from_utf8_lossy(&text).chars().take(100).collect();
            ChangeReply::read(&text)
                .ok_or_else(|| ServerError::Decode { expected: "the status of a change", got: got() })
        };
        let missing = || ServerError::Decode { expected: "an answer for each change", got: "fewer".into() };
        let read_all =
            |request: Vec<Change>| request.iter().map(|_| replies.next().ok_or_else(missing).and_then(read)).collect();
        batch.into_iter().map(read_all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_of_the_script_is_parsed() {
        let cases = [
            ("new 0000000000000007", Some(ChangeReply::New(MessageId(7)))),
            ("known 0000000000000007", Some(ChangeReply::Duplicate(MessageId(7)))),
            ("large 100", Some(ChangeReply::TooLarge(100))),
            ("full 5", Some(ChangeReply::Full(5))),
            ("memory OOM", Some(ChangeReply::NoMemory("OOM".into()))),
            ("done", Some(ChangeReply::Done)),
            ("gone", Some(ChangeReply::Gone)),
            ("stale", Some(ChangeReply::Stale)),
            ("12", Some(ChangeReply::Count(12))),
            ("else", None),
        ];
        for (text, reply) in cases {
            assert_eq!(ChangeReply::read(text.as_bytes()), reply, "{text}");
        }
    }
}
