//! Pushing: the builders.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, ObjectRef, chunks};
use redgrid_core::{Code, LIFETIMES, ServerError};

use crate::ask::millis;
use crate::body::{self, Headers};
use crate::changes::{Change, Told};
use crate::error::QueueError;
use crate::message::MessageId;
use crate::queue::ReliableQueue;
use crate::settings::delay_of;

type Boxed<O> = Pin<Box<dyn Future<Output = O> + Send>>;

/// The longest deduplication id, in bytes.
const LONGEST_ID: usize = 1024;

/// What is told of those behind a part that was not answered.
const UNASKED: &str = "one before it was not answered";

/// What became of a message that was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// The message: of one that is no new one that of the first with its deduplication id, which may be over.
    pub id: MessageId,
    /// Whether it was pushed now: `false` where one with its deduplication id was within the window.
    pub is_new: bool,
}

#[derive(Debug, Clone, Default)]
struct Options {
    delay: Option<Duration>,
    lifetime: Option<Duration>,
    priority: u8,
    headers: Headers,
    once: Option<(String, Option<Duration>)>,
}

/// Pushes one message: made by [`ReliableQueue::push`], asked when it is awaited.
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct Push<T, C> {
    queue: ReliableQueue<T, C>,
    value: Result<Bytes, ObjectError>,
    options: Options,
}

/// Pushes several messages: made by [`ReliableQueue::push_many`], asked when it is awaited.
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
            /// Nobody is given it earlier than this: zero to 3650 days by the server's clock. As the queue's settings say unless this is
            /// said, else zero.
            pub fn delay(mut self, delay: Duration) -> Self {
                self.options.delay = Some(delay);
                self
            }

            /// 0 to 9, 0 unless this is said: those with a higher one are received first.
            pub fn priority(mut self, priority: u8) -> Self {
                self.options.priority = priority;
                self
            }

            /// How long it may wait to be received, a delay included: 1 ms to 3650 days; then it is dropped. Who was given it before that may
            /// still acknowledge it. As the queue's settings say unless this is said, else without end.
            #[doc(alias = "timeToLive")]
            pub fn lifetime(mut self, lifetime: Duration) -> Self {
                self.options.lifetime = Some(lifetime);
                self
            }

            /// Adds a header: text about the message that is read without its value. Names have at most 65,535 bytes, all headers of a
            /// message 256 KiB.
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
        Push { queue, value, options: Options::default() }
    }

    /// Pushes it only where no message with this id was pushed within its window: 5 minutes, unless the queue's settings say otherwise. The
    /// id has 1 to 1,024 bytes. It counts although the message is over.
    #[doc(alias = "deduplicationById")]
    pub fn deduplicate(mut self, id: impl Into<String>) -> Self {
        self.options.once = Some((id.into(), None));
        self
    }

    /// The same for this long, 1 ms to 3650 days.
    #[doc(alias = "deduplicationById")]
    pub fn deduplicate_within(mut self, id: impl Into<String>, window: Duration) -> Self {
        self.options.once = Some((id.into(), Some(window)));
        self
    }
}

impl<T, C> PushMany<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>, values: Vec<Result<Bytes, ObjectError>>) -> Self {
        PushMany { queue, values, options: Options::default() }
    }
}

impl Options {
    /// What is the same for all messages.
    fn words(&self, object_ref: &ObjectRef) -> Result<[Bytes; 5], ObjectError> {
        let lived = |option, time: Option<Duration>| match time {
            None => Ok(Bytes::new()),
            Some(time) if LIFETIMES.contains(&time) => Ok(millis(time)),
            Some(time) => Err(object_ref.invalid(option, redgrid_core::LIFETIMES_EXPECTED, format!("{time:?}"))),
        };
        if self.priority > 9 {
            return Err(object_ref.invalid("priority", "0 to 9", self.priority));
        }
        let headers = body::size_of(&self.headers);
        let longest = self.headers.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        if headers > body::MOST_HEADERS || longest > body::LONGEST_NAME {
            let got = format!("{headers} bytes, the longest name {longest}");
            return Err(object_ref.invalid("headers", "at most 262144 bytes, and names of at most 65535", got));
        }
        let (id, window) = match &self.once {
            None => (Bytes::new(), None),
            Some((id, _)) if id.is_empty() || id.len() > LONGEST_ID => {
                let got = format!("{} bytes", id.len());
                return Err(object_ref.invalid("deduplication id", "1 to 1024 bytes", got));
            }
            Some((id, window)) => (Bytes::copy_from_slice(id.as_bytes()), *window),
        };
        let delay = self.delay.map(|delay| delay_of(object_ref, "delay", delay)).transpose()?.unwrap_or_default();
        let lifetime = lived("lifetime", self.lifetime)?;
        Ok([self.priority.to_string().into(), delay, lifetime, id, lived("deduplication window", window)?])
    }

    fn change(&self, words: &[Bytes; 5], value: &[u8]) -> Change {
        let framed = body::framed(&self.headers, value);
        [Bytes::from_static(b"push"), framed].into_iter().chain(words.iter().cloned()).collect()
    }
}

/// What the server said of a push.
fn pushed<T, C>(queue: &ReliableQueue<T, C>, told: Told, size: usize) -> Result<Pushed, QueueError> {
    let name = queue.desk()?.name.clone();
    match told {
        Told::New(id) => Ok(Pushed { id, is_new: true }),
        Told::Known(id) => Ok(Pushed { id, is_new: false }),
        Told::TooLarge(limit) => Err(QueueError::TooLarge { name, limit, got: size as u64 }),
        Told::Full(limit) => Err(QueueError::Full { name, limit }),
        Told::NoMemory(message) => {
            Err(ObjectError::of(&name, ServerError::Refused { code: Code::OutOfMemory, message }).into())
        }
        other => Err(other.unexpected(&name)),
    }
}

/// The size of the message in a change.
fn size_of(change: &Change) -> usize {
    change.get(1).map_or(0, Bytes::len)
}

impl<T: 'static, C: Send + Sync + 'static> IntoFuture for Push<T, C> {
    type Output = Result<Pushed, QueueError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let desk = self.queue.desk()?;
            let change = self.options.change(&self.options.words(self.queue.object_ref())?, &self.value?);
            let size = size_of(&change);
            let told = desk.change_one(change).await?;
            pushed(&self.queue, told, size)
        })
    }
}

impl<T: 'static, C: Send + Sync + 'static> IntoFuture for PushMany<T, C> {
    type Output = Vec<Result<Pushed, QueueError>>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let words = match self.options.words(self.queue.object_ref()) {
                Ok(words) => words,
                Err(error) => return vec![Err(error.into()); self.values.len()],
            };
            let mut outcomes: Vec<Result<Pushed, QueueError>> = Vec::with_capacity(self.values.len());
            let mut changes = Vec::with_capacity(self.values.len());
            let mut at = Vec::with_capacity(self.values.len());
            let unasked = match self.queue.object_ref().name_and_key() {
                Ok((name, _)) => ObjectError::of(name, ServerError::NotSent { reason: UNASKED.into() }),
                Err(invalid) => invalid,
            };
            for (object_ref, value) in self.values.iter().enumerate() {
                match value {
                    Ok(value) => {
                        outcomes.push(Err(unasked.clone().into()));
                        at.push(object_ref);
                        changes.push(self.options.change(&words, value));
                    }
                    Err(error) => outcomes.push(Err(error.clone().into())),
                }
            }
            let mut at = at.into_iter();
            for part in chunks(&changes, |change| change.iter().map(Bytes::len).sum()) {
                let told = match self.queue.desk() {
                    Ok(desk) => desk.change(part.to_vec()).await,
                    Err(error) => Err(error.into()),
                };
                match told {
                    Ok(told) => {
                        for ((change, told), at) in part.iter().zip(told).zip(&mut at) {
                            outcomes[at] = pushed(&self.queue, told, size_of(change));
                        }
                    }
                    Err(error) => {
                        // Those behind it are not pushed: what was is a beginning.
                        (&mut at).take(part.len()).for_each(|at| outcomes[at] = Err(error.clone()));
                        break;
                    }
                }
            }
            outcomes
        })
    }
}
