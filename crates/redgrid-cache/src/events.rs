//! What happens to entries, told as it happens: by Redisson's channels.

use std::fmt;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::Stream;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{MessageEvent, MessageStream, Request, ServerError};

use crate::cache::Cache;
use crate::layout::{LISTEN, Packed, channels, packed};

/// How many messages are kept for a slow reader, unless set: 1,024.
const KEPT: usize = 1024;

/// How often somebody who listens looks whether changes are still published.
const LOOKS: Duration = Duration::from_secs(3);

/// How many may be.
const MOST_KEPT: RangeInclusive<usize> = 1..=1_048_576;

/// Something that happened to an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryEvent<K, V> {
    /// It is new.
    #[doc(alias = "EntryCreatedListener")]
    Created {
        /// Its key.
        key: K,
        /// What it has.
        value: V,
    },
    /// It has another value.
    #[doc(alias = "EntryUpdatedListener")]
    Updated {
        /// Its key.
        key: K,
        /// What it has.
        value: V,
        /// What it had.
        was: V,
    },
    /// Somebody removed it, or it went as there were more than the limit.
    #[doc(alias = "EntryRemovedListener")]
    Removed {
        /// Its key.
        key: K,
        /// What it had.
        value: V,
    },
    /// It was over, and somebody has taken it out since.
    #[doc(alias = "EntryExpiredListener")]
    Expired {
        /// Its key.
        key: K,
        /// What it had.
        value: V,
    },
}

/// What comes of [`Events`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice<K, V> {
    /// Something happened.
    Event(EntryEvent<K, V>),
    /// Something happened that can not be decoded.
    Unreadable(ObjectError),
    /// Something may have happened that is not told: a connection was lost, a primary replaced, a slot has moved, the map deleted or cleared by Java.
    Gap,
    /// The reader was slow, and so many messages were not kept.
    Missed(u64),
    /// The server does not let this user hear a channel: nothing comes any more.
    Denied,
}

/// Listens to the entries of a map when asked to; made by [`Cache::events`].
#[must_use = "nothing is listened to until `begin` is awaited"]
pub struct Listen<K, V, KC, VC> {
    map: Cache<K, V, KC, VC, Packed>,
    kept: usize,
}

/// What happens to the entries of a map; made by [`Listen::begin`]. A `Stream` of [`Notice`]s; it ends with the client.
///
/// Dropped, nothing is listened to any more.
pub struct Events<K, V, KC, VC> {
    map: Cache<K, V, KC, VC, Packed>,
    messages: MessageStream,
    // Nobody waits for it: it is asked through `&mut` only.
    look: Mutex<Look>,
    /// A gap is to be told, when it is sure that what comes behind it is published.
    gap: bool,
    /// It is unknown whether what has happened since the last look was published.
    doubt: bool,
}

/// Has changes be published; tells whether they were not.
type Look = Pin<Box<dyn Future<Output = Result<bool, ObjectError>> + Send>>;

/// The next look, after this time.
fn look(place: Place, after: Duration) -> Mutex<Look> {
    Mutex::new(Box::pin(async move {
        let clock = place.client().clock();
        clock.sleep_until(clock.now() + after).await;
        place.change(ask_for(&place)?).await
    }))
}

/// Has changes be published: the flag for that goes with the map, and with a server that loses it.
fn ask_for(place: &Place) -> Result<Request, ObjectError> {
    packed(&LISTEN, place, [])
}

impl<K, V, KC: Codec, VC: Codec> Cache<K, V, KC, VC, Packed> {
    /// What happens to its entries from now on, whoever changes them. Each is told once, to who listens at that moment.
    ///
    /// From the first time on that somebody listens, each change of the map is published, by whomever; the flag for that is Redisson's, and goes
    /// with the map: where that is deleted, or cleared by Java, who listens sets it again within 3 s while it is polled, and tells a [`Notice::Gap`]. What is over is told when it is taken out: by the next call of anybody, or a client of Redisson that sweeps.
    #[doc(alias = "addListener")]
    pub fn events(&self) -> Listen<K, V, KC, VC> {
        Listen { map: self.clone(), kept: KEPT }
    }
}

impl<K, V, KC: Codec, VC: Codec> Listen<K, V, KC, VC> {
    /// Keeps so many messages for a slow reader, 1 to 1,048,576; 1,024 unless set. More cost memory, with fewer a burst is [`Notice::Missed`] sooner.
    pub fn keeping(mut self, messages: usize) -> Self {
        self.kept = messages;
        self
    }

    /// Begins: what happens from its end on is told.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what stands in the way; [`ObjectError::Refused`] where the user may not hear the channels.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, nothing is listened to; changes of the map may be published from then on.
    pub async fn begin(self) -> Result<Events<K, V, KC, VC>, ObjectError> {
        let Listen { map, kept } = self;
        if !MOST_KEPT.contains(&kept) {
            return Err(map.place.invalid("keeping", "1 to 1048576 messages", kept));
        }
        let place = map.place.clone();
        let (name, key) = place.named()?;
        let messages = map.place.client().message_stream(channels(key).into(), key, kept).await;
        let messages = messages.map_err(|source| ObjectError::of_read(name, source))?;
        place.change::<bool>(ask_for(&place)?.idempotent()).await?;
        let look = look(place, LOOKS);
        Ok(Events { map, messages, look, gap: false, doubt: false })
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Events<K, V, KC, VC> {
    /// What comes next; `None` when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Notice<K, V>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn read(&self, channel: usize, mut payload: Bytes) -> Result<EntryEvent<K, V>, ObjectError> {
        let mut part = || {
            let len = (payload.len() >= 8).then(|| payload.get_u64_le()).and_then(|len| usize::try_from(len).ok());
            len.filter(|len| *len <= payload.len()).map(|len| payload.split_to(len))
        };
        let (Some(field), Some(value)) = (part(), part()) else { return Err(self.foreign()) };
        let (key, value) = (self.map.key(&field)?, self.map.value(&field, &value)?);
        Ok(match channel {
            0 => EntryEvent::Created { key, value },
            1 => {
                let Some(was) = part() else { return Err(self.foreign()) };
                EntryEvent::Updated { key, value, was: self.map.value(&field, &was)? }
            }
            2 => EntryEvent::Removed { key, value },
            _ => EntryEvent::Expired { key, value },
        })
    }

    /// What nobody who knows the format has sent.
    fn foreign(&self) -> ObjectError {
        let source = ServerError::Decode { expected: "a key and values, each behind its length", got: "less".into() };
        match self.map.place.named() {
            Ok((name, _)) => ObjectError::Unexpected { name: name.clone(), source },
            Err(invalid) => invalid,
        }
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Stream for Events<K, V, KC, VC> {
    type Item = Notice<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let looks = self.look.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Poll::Ready(looked) = looks.as_mut().poll(context) {
                let (gap, doubt) = (self.gap, self.doubt);
                self.look = look(self.map.place.clone(), LOOKS);
                (self.gap, self.doubt) = (false, matches!(looked, Err(ObjectError::OutcomeUnknown { .. })));
                if gap || looked.is_ok_and(|was_lost| was_lost || doubt) {
                    return Poll::Ready(Some(Notice::Gap));
                }
                continue;
            }
            if self.gap {
                return Poll::Pending;
            }
            let Some(told) = ready!(self.messages.poll_next(context)) else { return Poll::Ready(None) };
            return Poll::Ready(Some(match told {
                MessageEvent::Message { channel, payload } => match self.read(channel, payload) {
                    Ok(event) => Notice::Event(event),
                    Err(error) => Notice::Unreadable(error),
                },
                MessageEvent::Gap => {
                    self.gap = true;
                    self.look = look(self.map.place.clone(), Duration::ZERO);
                    continue;
                }
                MessageEvent::Missed(missed) => Notice::Missed(missed),
                MessageEvent::Denied => Notice::Denied,
            }));
        }
    }
}

impl<K, V, KC, VC> Unpin for Events<K, V, KC, VC> {}

impl<K, V, KC, VC> fmt::Debug for Events<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("name", &self.map.place.name()).finish_non_exhaustive()
    }
}
