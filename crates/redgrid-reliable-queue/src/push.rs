//! Builders of pushes.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef, chunks};
use redgrid_core::{Code, LIFETIMES, ServerError};
use redgrid_work::body::{self, Headers};
use redgrid_work::{Change, ChangeReply, MessageId, delay_of, millis};

use crate::count;
use crate::error::{QueueError, unexpected};
use crate::queue::ReliableQueue;

/// The longest deduplication id, in bytes.
const MAX_ID: usize = 1024;

/// The reason that is reported for the messages after a failed batch.
const NOT_SENT: &str = "an earlier batch was not answered";

/// The outcome of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// The id of the message. For a duplicate, it is the id of the first message with the same
    /// deduplication id, which may no longer exist.
    pub id: MessageId,
    /// Whether this call pushed the message. `false` if its deduplication id was used within the
    /// window.
    pub is_new: bool,
}

#[derive(Debug, Clone, Default)]
struct Options {
    delay: Option<Duration>,
    lifetime: Option<Duration>,
    priority: u8,
    headers: Headers,
    deduplication: Option<(String, Option<Duration>)>,
}

/// Pushes one message when awaited; created by [`ReliableQueue::push`].
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct Push<T, C> {
    queue: ReliableQueue<T, C>,
    value: Result<Bytes, ObjectError>,
    options: Options,
}

/// Pushes several messages when awaited; created by [`ReliableQueue::push_many`].
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct PushMany<T, C> {
    queue: ReliableQueue<T, C>,
    values: Vec<Result<Bytes, ObjectError>>,
    options: Options,
}

macro_rules! options {
    ($push:ident) => {
        impl<T, C> $push<T, C> {
            /// Delays the message: it is not delivered until this time, zero to 3650 days, has
            /// passed on the server's clock. Default: the queue's setting, else zero.
            pub fn delay(mut self, delay: Duration) -> Self {
                self.options.delay = Some(delay);
                self
            }

            /// Sets the priority, 0 to 9; the default is 0. Messages with a higher priority are
            /// received first.
            pub fn priority(mut self, priority: u8) -> Self {
                self.options.priority = priority;
                self
            }

            /// Sets how long the message may wait to be received, including a delay: 1 ms to 3650
            /// days. After that it is dropped. A consumer that received it earlier may still
            /// acknowledge it. Default: the queue's setting, else unlimited.
            #[doc(alias = "timeToLive")]
            pub fn lifetime(mut self, lifetime: Duration) -> Self {
                self.options.lifetime = Some(lifetime);
                self
            }

            /// Adds a header: text that can be read without decoding the value. Names have at most
            /// 65,535 bytes, all headers of a message together 256 KiB.
            #[doc(alias = "headers")]
            pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
                self.options.headers.push((name.into(), text.into()));
                self
            }
        }
    };
}

options!(Push);
options!(PushMany);

impl<T, C> Push<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>, value: Result<Bytes, ObjectError>) -> Self {
        let options = Options { headers: queue.propagator.headers(), ..Options::default() };
        Push { queue, value, options }
    }

    /// Pushes the message unless one with this id was pushed within the deduplication window. The
    /// id has 1 to 1,024 bytes. It counts even if its message no longer exists. The window is the
    /// queue's setting, else 5 minutes.
    #[doc(alias = "deduplicationById")]
    pub fn deduplicate(mut self, id: impl Into<String>) -> Self {
        self.options.deduplication = Some((id.into(), None));
        self
    }

    /// Deduplicates as [`Push::deduplicate`], within this window, 1 ms to 3650 days.
    #[doc(alias = "deduplicationById")]
    pub fn deduplicate_within(mut self, id: impl Into<String>, window: Duration) -> Self {
        self.options.deduplication = Some((id.into(), Some(window)));
        self
    }
}

impl<T, C> PushMany<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>, values: Vec<Result<Bytes, ObjectError>>) -> Self {
        let options = Options { headers: queue.propagator.headers(), ..Options::default() };
        PushMany { queue, values, options }
    }
}

impl Options {
    /// Returns the arguments that are the same for all messages.
    fn args(&self, object_ref: &ObjectRef) -> Result<[Bytes; 5], ObjectError> {
        let lifetime_arg = |option, time: Option<Duration>| match time {
            None => Ok(Bytes::new()),
            Some(time) if LIFETIMES.contains(&time) => Ok(millis(time)),
            Some(time) => Err(object_ref.invalid(option, redgrid_core::LIFETIMES_EXPECTED, format!("{time:?}"))),
        };
        if self.priority > 9 {
            return Err(object_ref.invalid("priority", "0 to 9", self.priority));
        }
        let headers = body::size_of(&self.headers);
        let longest = self.headers.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        if headers > body::MAX_HEADERS || longest > body::MAX_NAME {
            let got = format!("{headers} bytes, the longest name {longest}");
            return Err(object_ref.invalid("headers", "at most 262144 bytes, and names of at most 65535", got));
        }
        let (id, window) = match &self.deduplication {
            None => (Bytes::new(), None),
            Some((id, _)) if id.is_empty() || id.len() > MAX_ID => {
                let got = format!("{} bytes", id.len());
                return Err(object_ref.invalid("deduplication id", "1 to 1024 bytes", got));
            }
            Some((id, window)) => (Bytes::copy_from_slice(id.as_bytes()), *window),
        };
        let delay = self.delay.map(|delay| delay_of(object_ref, "delay", delay)).transpose()?.unwrap_or_default();
        let lifetime = lifetime_arg("lifetime", self.lifetime)?;
        Ok([self.priority.to_string().into(), delay, lifetime, id, lifetime_arg("deduplication window", window)?])
    }

    fn change(&self, args: &[Bytes; 5], value: &[u8]) -> Change {
        let bytes = body::encode(&self.headers, value);
        [Bytes::from_static(b"push"), bytes].into_iter().chain(args.iter().cloned()).collect()
    }
}

/// Converts the reply to a push.
fn pushed<T, C>(queue: &ReliableQueue<T, C>, reply: ChangeReply, size: usize) -> Result<Pushed, QueueError> {
    let name = queue.queue_client()?.name.clone();
    count::pushed(queue.family, &reply);
    match reply {
        ChangeReply::New(id) => Ok(Pushed { id, is_new: true }),
        ChangeReply::Duplicate(id) => Ok(Pushed { id, is_new: false }),
        ChangeReply::TooLarge(limit) => Err(QueueError::TooLarge { name, limit, got: size as u64 }),
        ChangeReply::Full(limit) => Err(QueueError::Full { name, limit }),
        ChangeReply::NoMemory(message) => {
            Err(ObjectError::of(&name, ServerError::Refused { code: Code::OutOfMemory, message }).into())
        }
        _ => Err(unexpected(&name)),
    }
}

/// Returns the size of the message in a change.
fn size_of(change: &Change) -> usize {
    change.get(1).map_or(0, Bytes::len)
}

into_future!([T: 'static, C: Send + Sync + 'static] Push<T, C> => Result<Pushed, QueueError>, |this| async move {
    let queue_client = this.queue.queue_client()?;
    let change = this.options.change(&this.options.args(this.queue.object_ref())?, &this.value?);
    let size = size_of(&change);
    let reply = queue_client.change_one(change).await?;
    pushed(&this.queue, reply, size)
});

into_future!(
    [T: 'static, C: Send + Sync + 'static] PushMany<T, C> => Vec<Result<Pushed, QueueError>>,
    |this| async move {
        let args = match this.options.args(this.queue.object_ref()) {
            Ok(args) => args,
            Err(error) => return vec![Err(error.into()); this.values.len()],
        };
        let mut outcomes: Vec<Result<Pushed, QueueError>> = Vec::with_capacity(this.values.len());
        let mut changes = Vec::with_capacity(this.values.len());
        let mut positions = Vec::with_capacity(this.values.len());
        let not_sent = match this.queue.object_ref().name_and_key() {
            Ok((name, _)) => ObjectError::of(name, ServerError::NotSent { reason: NOT_SENT.into() }),
            Err(invalid) => invalid,
        };
        for (position, value) in this.values.iter().enumerate() {
            match value {
                Ok(value) => {
                    outcomes.push(Err(not_sent.clone().into()));
                    positions.push(position);
                    changes.push(this.options.change(&args, value));
                }
                Err(error) => outcomes.push(Err(error.clone().into())),
            }
        }
        let mut positions = positions.into_iter();
        for part in chunks(&changes, |change| change.iter().map(Bytes::len).sum()) {
            let replies = match this.queue.queue_client() {
                Ok(queue_client) => queue_client.change(part.to_vec()).await,
                Err(error) => Err(error.into()),
            };
            match replies {
                Ok(replies) => {
                    for ((change, reply), position) in part.iter().zip(replies).zip(&mut positions) {
                        outcomes[position] = pushed(&this.queue, reply, size_of(change));
                    }
                }
                Err(error) => {
                    // Later batches are not sent, so that the pushed messages are always the first
                    // ones.
                    (&mut positions).take(part.len()).for_each(|position| outcomes[position] = Err(error.clone()));
                    break;
                }
            }
        }
        outcomes
    }
);
