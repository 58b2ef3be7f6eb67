//! What tasks of one process do to a queue at the same time leaves as one request, which acts once.

use bytes::Bytes;
use redgrid_core::author::{BatchExecutor, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::{Client, Name, ServerError};

use crate::error::QueueError;
use crate::keys::Keys;
use crate::message::{MessageId, Receipt};

/// How many changes leave together, and how many bytes, about.
const AT_ONCE: (usize, usize) = (500, 4 << 20);

/// One change: its word and what belongs to it, as change.lua says.
pub(crate) type Change = Vec<Bytes>;

/// What the server says of one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    New(MessageId),
    Known(MessageId),
    TooLarge(u64),
    Full(u64),
    /// The server has no memory for it: in its words.
    NoMemory(String),
    Done,
    Gone,
    Stale,
    Count(u64),
}

impl Told {
    pub(crate) fn read(said: &[u8]) -> Option<Told> {
        let said = std::str::from_utf8(said).ok()?;
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        Some(match word {
            "new" => Told::New(rest.parse().ok()?),
            "known" => Told::Known(rest.parse().ok()?),
            "large" => Told::TooLarge(rest.parse().ok()?),
            "full" => Told::Full(rest.parse().ok()?),
            "memory" => Told::NoMemory(rest.to_owned()),
            "done" => Told::Done,
            "gone" => Told::Gone,
            "stale" => Told::Stale,
            count => Told::Count(count.parse().ok()?),
        })
    }

    /// Of a message that was to be changed under a receipt.
    pub(crate) fn settled(self, name: &Name, id: MessageId) -> Result<(), QueueError> {
        match self {
            Told::Done => Ok(()),
            Told::Gone | Told::Stale => Err(QueueError::Stale { name: name.clone(), id }),
            other => Err(other.unexpected(name)),
        }
    }

    pub(crate) fn counted(self, name: &Name) -> Result<u64, QueueError> {
        match self {
            Told::Count(count) => Ok(count),
            other => Err(other.unexpected(name)),
        }
    }

    pub(crate) fn unexpected(self, name: &Name) -> QueueError {
        let source = ServerError::Decode { expected: "what became of a change", got: "that of another one".to_owned() };
        ObjectError::of(name, source).into()
    }
}

/// A change of what was given.
pub(crate) fn under(word: &'static str, receipt: &Receipt, more: Option<Bytes>) -> Change {
    let words = [Bytes::from_static(word.as_bytes()), receipt.id.arg(), receipt.token.clone()];
    words.into_iter().chain(more).collect()
}

/// Carries changes out for all tasks of a client.
pub(crate) struct Changes {
    client: Client,
    keys: std::sync::Arc<Keys>,
}

impl Changes {
    pub(crate) fn new(client: &Client, keys: &std::sync::Arc<Keys>) -> Self {
        Changes { client: client.clone(), keys: std::sync::Arc::clone(keys) }
    }
}

impl BatchExecutor for Changes {
    type Request = Vec<Change>;
    type Reply = Result<Vec<Told>, ServerError>;

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a Self::Request>) -> usize {
        let (mut changes, mut bytes) = (0, 0);
        let fits = asks.take_while(|ask| {
            changes += ask.len();
            bytes += ask.iter().flatten().map(Bytes::len).sum::<usize>();
            changes <= AT_ONCE.0 && bytes <= AT_ONCE.1
        });
        fits.count()
    }

    async fn execute(&self, batch: Vec<Self::Request>, until: Instant) -> Vec<Self::Reply> {
        let words = batch.iter().flatten().flatten().cloned();
        let request = words.fold(self.keys.change(), |request, word| request.arg(word));
        let told: Result<Vec<Bytes>, ServerError> = self.client.run_exactly_once_until(request, until).await;
        let mut told = match told {
            Ok(told) => told.into_iter(),
            Err(error) => return vec![Err(error); batch.len()],
        };
        let read = |said: Bytes| {
            let got = || String::from_utf8_lossy(&said).chars().take(100).collect();
            Told::read(&said).ok_or_else(|| ServerError::Decode { expected: "what became of a change", got: got() })
        };
        let missing = || ServerError::Decode { expected: "an answer for each change", got: "fewer".into() };
        let of_ask = |ask: Vec<Change>| ask.iter().map(|_| told.next().ok_or_else(missing).and_then(read)).collect();
        batch.into_iter().map(of_ask).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_the_script_is_read() {
        let cases = [
            ("new 0000000000000007", Some(Told::New(MessageId(7)))),
            ("known 0000000000000007", Some(Told::Known(MessageId(7)))),
            ("large 100", Some(Told::TooLarge(100))),
            ("full 5", Some(Told::Full(5))),
            ("memory OOM", Some(Told::NoMemory("OOM".into()))),
            ("done", Some(Told::Done)),
            ("gone", Some(Told::Gone)),
            ("stale", Some(Told::Stale)),
            ("12", Some(Told::Count(12))),
            ("else", None),
        ];
        for (said, told) in cases {
            assert_eq!(Told::read(said.as_bytes()), told, "{said}");
        }
    }
}
