//! Events of entries, by Redisson's channels.

use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::Stream;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{Failure, PubSubEvent, PubSubStream, Request, ServerError};

use crate::cache::Cache;
use crate::layout::{LISTEN, Packed, channels, packed};

/// Number of messages that are buffered for a slow reader by default.
const DEFAULT_BUFFER: usize = 1024;

/// How often a listener checks the flag that lets scripts publish changes.
const FLAG_CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// The allowed buffer sizes, in messages.
const BUFFER_SIZES: RangeInclusive<usize> = 1..=1_048_576;

/// An event of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryEvent<K, V> {
    /// The entry is new.
    #[doc(alias = "EntryCreatedListener")]
    Created {
        /// The key.
        key: K,
        /// The value.
        value: V,
    },
    /// The entry has another value.
    #[doc(alias = "EntryUpdatedListener")]
    Updated {
        /// The key.
        key: K,
        /// The new value.
        value: V,
        /// The previous value.
        was: V,
    },
    /// The entry was removed by a call, or evicted because of the limit.
    #[doc(alias = "EntryRemovedListener")]
    Removed {
        /// The key.
        key: K,
        /// The previous value.
        value: V,
    },
    /// The entry had expired, and a later call removed it.
    #[doc(alias = "EntryExpiredListener")]
    Expired {
        /// The key.
        key: K,
        /// The previous value.
        value: V,
    },
}

/// An item of the stream [`Events`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice<K, V> {
    /// An event.
    Event(EntryEvent<K, V>),
    /// An event that cannot be decoded.
    Unreadable(ObjectError),
    /// Events may have been missed, because a connection was lost, a primary was replaced, a slot
    /// has moved, or the map was deleted, or cleared by Java.
    Gap,
    /// The reader was slow: this number of messages was discarded.
    Missed(u64),
    /// The server does not allow this user to subscribe to a channel: no more events arrive.
    Denied,
}

/// A subscription to the events of a map that [`Listen::begin`] starts; returned by
/// [`Cache::events`].
#[must_use = "does nothing until `begin` is awaited"]
pub struct Listen<K, V, KC, VC> {
    map: Cache<K, V, KC, VC, Packed>,
    buffer: usize,
}

/// The events of the entries of a map; returned by [`Listen::begin`].
///
/// It is a `Stream` of [`Notice`]s, which ends when the client is shut down. Dropping it ends the
/// subscription.
pub struct Events<K, V, KC, VC> {
    map: Cache<K, V, KC, VC, Packed>,
    messages: PubSubStream,
    /// The channels of the kinds of events, in the order of [`EntryEvent`].
    channels: [Bytes; 4],
    // A mutex only to be `Sync`: it is never locked, only accessed through `&mut`.
    flag_check: Mutex<FlagCheck>,
    /// Whether a gap is to be reported after the next check of the flag.
    pending_gap: bool,
    /// Whether it is unknown if the last check had to set the flag.
    unsure: bool,
}

/// A request that sets the flag; returns whether the flag was missing.
type FlagCheck = Pin<Box<dyn Future<Output = Result<bool, ObjectError>> + Send>>;

/// Schedules the next check of the flag.
fn next_flag_check(object_ref: ObjectRef, after: Duration) -> Mutex<FlagCheck> {
    Mutex::new(Box::pin(async move {
        let clock = object_ref.client().clock();
        clock.sleep_until(clock.now() + after).await;
        object_ref.change(listen_request(&object_ref)?).await
    }))
}

/// Builds the request that lets scripts publish changes.
///
/// The flag is deleted with the map, and a server that loses data may lose it.
fn listen_request(object_ref: &ObjectRef) -> Result<Request, ObjectError> {
    packed(&LISTEN, object_ref, [])
}

impl<K, V, KC: Codec, VC: Codec> Cache<K, V, KC, VC, Packed> {
    /// Returns a subscription to the events of the map's entries, whichever client changes them.
    ///
    /// Each event is delivered at most once, to the listeners that are subscribed at that moment.
    ///
    /// From the first subscription on, every client publishes its changes of the map. The flag for
    /// that is Redisson's, and it is deleted with the map. If the map is deleted, or cleared by
    /// Java, a listener sets the flag again within 3 s while it is polled, and returns
    /// [`Notice::Gap`]. Expiry is published when an expired entry is removed: by the next call of
    /// any client, or by a Redisson client's eviction task.
    #[doc(alias = "addListener")]
    pub fn events(&self) -> Listen<K, V, KC, VC> {
        Listen { map: self.clone(), buffer: DEFAULT_BUFFER }
    }
}

impl<K, V, KC: Codec, VC: Codec> Listen<K, V, KC, VC> {
    /// Sets how many messages are buffered for a slow reader, 1 to 1,048,576; the default is 1,024.
    ///
    /// A larger buffer uses more memory. With a smaller one, a burst leads to [`Notice::Missed`]
    /// sooner.
    pub fn buffer(mut self, messages: usize) -> Self {
        self.buffer = messages;
        self
    }

    /// Subscribes. Events that occur after the return of this call are delivered.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. [`Failure::Refused`] if the user may not subscribe
    /// to the channels.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the subscription ends. Changes of the map may be published
    /// from then on.
    pub async fn begin(self) -> Result<Events<K, V, KC, VC>, ObjectError> {
        let Listen { map, buffer } = self;
        if !BUFFER_SIZES.contains(&buffer) {
            return Err(map.object_ref.invalid("buffer", "1 to 1048576 messages", buffer));
        }
        let object_ref = map.object_ref.clone();
        let (name, key) = object_ref.name_and_key()?;
        let channels = channels(key);
        let messages = object_ref.client().message_stream(channels.to_vec(), key, buffer).await;
        let messages = messages.map_err(|source| ObjectError::of_read(name, source))?;
        object_ref.change::<bool>(listen_request(&object_ref)?.idempotent()).await?;
        let flag_check = next_flag_check(object_ref, FLAG_CHECK_INTERVAL);
        Ok(Events { map, messages, channels, flag_check, pending_gap: false, unsure: false })
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Events<K, V, KC, VC> {
    /// Returns the next item; `None` when the client is shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next call returns the item.
    pub async fn next(&mut self) -> Option<Notice<K, V>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads a message; `None` if its channel is none of the events'.
    fn read(&self, channel: &Bytes, mut payload: Bytes) -> Result<Option<EntryEvent<K, V>>, ObjectError> {
        let Some(kind) = self.channels.iter().position(|known| known == channel) else { return Ok(None) };
        let mut next_part = || {
            let len = (payload.len() >= 8).then(|| payload.get_u64_le()).and_then(|len| usize::try_from(len).ok());
            len.filter(|len| *len <= payload.len()).map(|len| payload.split_to(len))
        };
        let (Some(field), Some(value)) = (next_part(), next_part()) else { return Err(self.malformed()) };
        let (key, value) = (self.map.decode_key(&field)?, self.map.decode_value(&field, &value)?);
        Ok(Some(match kind {
            0 => EntryEvent::Created { key, value },
            1 => {
                let Some(previous) = next_part() else { return Err(self.malformed()) };
                EntryEvent::Updated { key, value, was: self.map.decode_value(&field, &previous)? }
            }
            2 => EntryEvent::Removed { key, value },
            _ => EntryEvent::Expired { key, value },
        }))
    }

    /// The error for a message that is not in Redisson's format.
    fn malformed(&self) -> ObjectError {
        let source = ServerError::Decode { expected: "a key and values, each after its length", got: "less".into() };
        match self.map.object_ref.name_and_key() {
            Ok((name, _)) => ObjectError::Unexpected { name: name.clone(), source },
            Err(invalid) => invalid,
        }
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Stream for Events<K, V, KC, VC> {
    type Item = Notice<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let flag_check = self.flag_check.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Poll::Ready(checked) = flag_check.as_mut().poll(cx) {
                let (pending_gap, unsure) = (self.pending_gap, self.unsure);
                self.flag_check = next_flag_check(self.map.object_ref.clone(), FLAG_CHECK_INTERVAL);
                (self.pending_gap, self.unsure) =
                    (false, matches!(checked, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))));
                if pending_gap || checked.is_ok_and(|was_missing| was_missing || unsure) {
                    return Poll::Ready(Some(Notice::Gap));
                }
                continue;
            }
            if self.pending_gap {
                return Poll::Pending;
            }
            let Some(message) = ready!(self.messages.poll_next(cx)) else { return Poll::Ready(None) };
            return Poll::Ready(Some(match message {
                PubSubEvent::Message { channel, payload } => match self.read(&channel, payload) {
                    Ok(Some(event)) => Notice::Event(event),
                    Ok(None) => continue,
                    Err(error) => Notice::Unreadable(error),
                },
                PubSubEvent::Missed(missed) => Notice::Missed(missed),
                PubSubEvent::Denied(_) => Notice::Denied,
                _ => {
                    self.pending_gap = true;
                    self.flag_check = next_flag_check(self.map.object_ref.clone(), Duration::ZERO);
                    continue;
                }
            }));
        }
    }
}

impl<K, V, KC, VC> Unpin for Events<K, V, KC, VC> {}

redgrid_core::debug_fields!([K, V, KC, VC] Events<K, V, KC, VC>, |it| name: it.map.object_ref.name());
