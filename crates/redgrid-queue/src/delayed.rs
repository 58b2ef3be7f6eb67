//! The delayed queue: elements can be taken when they are due.

use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, ObjectError, chunks, layouts};
use redgrid_core::{Client, IdempotentRequest, IdempotentScript, LIFETIMES, Pairs, Request, Script};

use crate::elements::{CANCEL, Elements, channel, queue_type};
use crate::ends::{End, put_back};
use crate::select;
use crate::stock::{MAX_TAKEN_BYTES, TakeSource};
use crate::waiters::TakeWaiters;

static DELAY: Script<1> = Script::new("queue/delay", include_str!("scripts/delay.lua"));
static COUNT_DUE: Script<2> = Script::new("queue/count_due", include_str!("scripts/count_due.lua"));
static TAKE: IdempotentScript<3> = IdempotentScript::new("queue/take_due", include_str!("scripts/take_due.lua"));

/// Number of elements of Redisson's list that a script may visit, approximately, if it takes more
/// than one element. Visiting them takes about 10 ms on a machine of 2024.
const MAX_VISITED: i64 = 250_000;

/// Length of an id in bytes, in Redisson's items and in ours.
const ID_LEN: u8 = 8;

queue_type! {
    /// Elements that can be taken when they are due, in the order of their due times, shared by all
    /// processes that reach the same server.
    ///
    /// On the wire it is Redisson's `RDelayedQueue`, together with the queue to which Redisson
    /// moves due elements.
    ///
    /// It is cheap to clone; clones are handles of the same queue. The codec `C` is part of the
    /// type, as for a [`Queue`](crate::Queue). Whether an element is due is decided by the server's
    /// clock when a caller takes: no process has to run to move elements.
    #[doc(alias = "RDelayedQueue")]
    #[doc(alias = "RedissonDelayedQueue")]
    pub struct DelayedQueue: delayed_queue, 2 keys
}

/// Identifies an element that was delayed, for [`DelayedQueue::cancel`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delayed(Bytes);

/// The due elements of a queue, which waiters take.
struct DueElements {
    keys: [Bytes; 3],
}

impl TakeSource for DueElements {
    fn key(&self) -> &Bytes {
        &self.keys[0]
    }

    fn channels(&self) -> Vec<Bytes> {
        vec![channel(self.key()), redisson_channel(self.key())]
    }

    fn take(&self, limit: usize) -> IdempotentRequest {
        TAKE.with(self.keys.clone()).arg(limit.to_string()).int(MAX_TAKEN_BYTES).int(MAX_VISITED)
    }

    fn put_back(&self, unique: Bytes, elements: &[Bytes]) -> IdempotentRequest {
        put_back(unique, self.key(), End::Front, elements)
    }
}

/// Returns Redisson's channel, on which the due time of the first element is published.
fn redisson_channel(key: &[u8]) -> Bytes {
    companion("redisson_delay_queue_channel", key)
}

impl<T, C> DelayedQueue<T, C> {
    /// Returns the keys of the queue, of the delayed elements, and of Redisson's list of them.
    fn keys(&self) -> Result<[Bytes; 3], ObjectError> {
        let key = self.elements.key()?;
        Ok([key.clone(), companion("redisson_delay_queue_timeout", &key), companion("redisson_delay_queue", &key)])
    }

    /// Returns the number of due elements, the number of the others, and the first due element.
    async fn count_due(&self) -> Result<(u64, u64, Option<Bytes>), ObjectError> {
        let [queue, delayed, _] = self.keys()?;
        // The primary is read, because its clock also decides which elements are due for a take.
        self.elements.place.read_primary(COUNT_DUE.with([queue, delayed])).await
    }
}

impl<T, C: Codec> DelayedQueue<T, C> {
    /// Returns the number of due elements.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn due(&self) -> Result<u64, ObjectError> {
        Ok(self.count_due().await?.0)
    }

    /// Returns the number of elements, due or not.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`DelayedQueue::due`].
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let (due, later, _) = self.count_due().await?;
        Ok(due + later)
    }

    /// Returns whether there are no elements, due or not.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`DelayedQueue::due`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all elements, due or not, in one step, and returns whether there were any.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let removed: u64 = self.elements.place.change(Request::command("DEL").keys(self.keys()?)).await?;
        Ok(removed > 0)
    }

    /// Removes an element that was not taken yet, and returns whether it still existed.
    ///
    /// An element that a client of Redisson has moved because it was due is not found.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn cancel(&self, delayed: &Delayed) -> Result<bool, ObjectError> {
        let [_, delayed_key, _] = self.keys()?;
        self.elements.place.change(CANCEL.with([delayed_key]).arg(delayed.0.clone())).await
    }
}

impl<T, C: Codec> DelayedQueue<T, C> {
    /// Adds an element that is due after a delay. Returns a value that identifies it for
    /// [`DelayedQueue::cancel`].
    ///
    /// The delay is at most 3,650 days, and is rounded up to whole milliseconds of the server's
    /// clock. Elements that are due in the same millisecond are taken in the order in which they
    /// were added.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a longer delay.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "offer")]
    pub async fn push<Q: ?Sized>(&self, value: &Q, delay: Duration) -> Result<Delayed, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let mut pushed = self.push_many([(value, delay)]).await?;
        Ok(pushed.pop().unwrap_or(Delayed(Bytes::new())))
    }

    /// Adds elements, each with its delay. Returns for each a value that identifies it for
    /// [`DelayedQueue::cancel`].
    ///
    /// Up to 500 of them or about 4 MiB are added in one step.
    ///
    /// # Errors
    ///
    /// As for [`DelayedQueue::push`]; after the first step [`ObjectError::Partial`], with the
    /// number of elements that were added.
    ///
    /// # Cancel safety
    ///
    /// As for [`DelayedQueue::push`].
    pub async fn push_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = (&'a Q, Duration)>,
    ) -> Result<Vec<Delayed>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, key) = self.elements.place.name_and_key()?;
        let [_, delayed_key, _] = self.keys()?;
        let encoded = values.into_iter().map(|(value, delay)| Ok((self.millis(delay)?, self.elements.encode(value)?)));
        let values: Vec<(i64, Bytes)> = encoded.collect::<Result<_, ObjectError>>()?;
        let mut pushed = Vec::with_capacity(values.len());
        for part in chunks(&values, |(_, value)| value.len()) {
            let request = DELAY.with([delayed_key.clone()]).publish_arg().arg(channel(key)).arg(redisson_channel(key));
            let request = part.iter().fold(request, |request, (delay, value)| request.int(*delay).arg(value.clone()));
            let ids: Result<Vec<Bytes>, _> = self.elements.place.change(request).await;
            let ids = ids.map_err(|error| error.after(name, pushed.len() as u64))?;
            pushed.extend(ids.iter().zip(part).map(|(id, (_, value))| pack(id, value)));
        }
        Ok(pushed)
    }

    fn millis(&self, delay: Duration) -> Result<i64, ObjectError> {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        match i64::try_from(millis) {
            Ok(millis) if delay <= *LIFETIMES.end() => Ok(millis),
            _ => Err(self.elements.place.invalid("delay", "up to 3650 days", format_args!("{delay:?}"))),
        }
    }
}

impl<T, C: Decode<T>> DelayedQueue<T, C> {
    /// Returns the first due element, which stays.
    ///
    /// Returns `None` if none is due. It also returns `None` if the first one is not an item of a
    /// delayed queue; a take reports that as an error.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn peek(&self) -> Result<Option<T>, ObjectError> {
        self.elements.decode_optional(self.count_due().await?.2)
    }

    /// Returns up to `most` of the first delayed elements, each with the time until it is due by
    /// the server's clock. That time is zero for due elements.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. If one element
    /// cannot be decoded, the call fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_delayed(&self, most: u64) -> Result<Vec<(T, Duration)>, ObjectError> {
        let most = self.elements.count("most", most)?;
        if most == 0 {
            return Ok(Vec::new());
        }
        let [_, delayed_key, _] = self.keys()?;
        let time: Request = Request::command("TIME").idempotent();
        let range = Request::command("ZRANGE").key(delayed_key).int(0).int(most - 1).arg("WITHSCORES").idempotent();
        let (Pairs(items), clock): (Pairs<Bytes, f64>, (u64, u64)) =
            self.elements.place.read_primary(Request::together([range, time])).await?;
        let now = clock.0 as f64 * 1e3 + clock.1 as f64 / 1e3;
        let decode = |(item, due): (Bytes, f64)| {
            let due_in = Duration::try_from_secs_f64((due - now) / 1e3).unwrap_or(Duration::ZERO);
            Ok((self.elements.decode(&unpack(&item))?, due_in))
        };
        items.into_iter().map(decode).collect()
    }

    /// Takes the first due element, and waits until one is due, as
    /// [`Queue::take`](crate::Queue::take).
    ///
    /// # Errors
    ///
    /// As for [`Queue::take`](crate::Queue::take).
    ///
    /// # Cancel safety
    ///
    /// As for [`Queue::take`](crate::Queue::take): elements are put back in front of all due
    /// elements, whatever their due times.
    pub async fn take(&self) -> Result<T, ObjectError> {
        loop {
            if let Some(value) = self.take_due(None).await? {
                return Ok(value);
            }
        }
    }

    /// Takes the first due element, and waits up to `within` until one is due; `None` if none was
    /// due in time.
    ///
    /// The server is polled at least once. If `within` is zero, it is polled exactly once.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`DelayedQueue::take`].
    #[doc(alias = "poll")]
    pub async fn take_within(&self, within: Duration) -> Result<Option<T>, ObjectError> {
        self.take_due(Some(within)).await
    }

    async fn take_due(&self, timeout: Option<Duration>) -> Result<Option<T>, ObjectError> {
        let (name, keys) = (self.elements.name()?.clone(), self.keys()?);
        let queue = TakeWaiters::of(self.elements.place.client(), &keys[0].clone(), || DueElements { keys });
        self.elements.decode_optional(select::take(&[(name, queue)], timeout).await?.map(|(_, bytes)| bytes))
    }
}

/// Returns the item of an element: the id and the element in Redisson's format, `Bc0Lc0` of Lua's
/// struct.
fn pack(id: &[u8], value: &[u8]) -> Delayed {
    let length = (value.len() as u64).to_le_bytes();
    Delayed([&[ID_LEN], id, &length, value].concat().into())
}

/// Returns the element of an item.
fn unpack(item: &Bytes) -> Bytes {
    let head = 1 + usize::from(item.first().copied().unwrap_or_default()) + 8;
    item.slice(head.min(item.len())..)
}
