//! The delayed queue: in now, out when it is due.

use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, ObjectError, layouts, parts};
use redgrid_core::{Client, IdempotentRequest, IdempotentScript, LIFETIMES, Pairs, Request, Script};

use crate::elements::{CANCEL, Elements, channel, queue};
use crate::ends::{End, put_back};
use crate::select;
use crate::stock::{MAX_TAKEN_BYTES, TakeSource};
use crate::waiters::TakeWaiters;

static DELAY: Script<1> = Script::new("queue/delay", include_str!("scripts/delay.lua"));
static LOOK: Script<2> = Script::new("queue/look_due", include_str!("scripts/look_due.lua"));
static TAKE: IdempotentScript<3> = IdempotentScript::new("queue/take_due", include_str!("scripts/take_due.lua"));

/// How many elements of Redisson's list a script passes at most, about, where it has a choice: about 10 ms of a machine of 2024.
const PASSED: i64 = 250_000;

/// How many bytes an id has, in Redisson's items and in ours.
const ID: u8 = 8;

queue! {
    /// Elements that can be taken when they are due, in the order in which they are, shared by all processes that reach the same server.
    /// Redisson's `RDelayedQueue` on the wire, and the queue it leads to.
    ///
    /// Cheap to clone; clones are the same queue. The codec `C` is as that of a [`Queue`](crate::Queue). What is due is decided by the server's
    /// clock when somebody asks: nobody has to be there to move anything.
    #[doc(alias = "RDelayedQueue")]
    #[doc(alias = "RedissonDelayedQueue")]
    pub struct DelayedQueue: delayed_queue, 2 keys
}

/// An element that was delayed: what [`DelayedQueue::cancel`] needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delayed(Bytes);

struct DueElements {
    keys: [Bytes; 3],
}

impl TakeSource for DueElements {
    fn key(&self) -> &Bytes {
        &self.keys[0]
    }

    fn channels(&self) -> Vec<Bytes> {
        vec![channel(self.key()), redissons(self.key())]
    }

    fn take(&self, limit: usize) -> IdempotentRequest {
        TAKE.with(self.keys.clone()).arg(limit.to_string()).int(MAX_TAKEN_BYTES).int(PASSED)
    }

    fn put_back(&self, unique: Bytes, elements: &[Bytes]) -> IdempotentRequest {
        put_back(unique, self.key(), End::Front, elements)
    }
}

/// Redisson's channel: when the first is due.
fn redissons(key: &[u8]) -> Bytes {
    companion("redisson_delay_queue_channel", key)
}

impl<T, C> DelayedQueue<T, C> {
    /// The queue, what is delayed, and Redisson's list of that.
    fn keys(&self) -> Result<[Bytes; 3], ObjectError> {
        let key = self.of.key()?;
        Ok([key.clone(), companion("redisson_delay_queue_timeout", &key), companion("redisson_delay_queue", &key)])
    }

    async fn look(&self) -> Result<(u64, u64, Option<Bytes>), ObjectError> {
        let [queue, delayed, _] = self.keys()?;
        // By the primary's clock, as those who take.
        self.of.place.ask(LOOK.with([queue, delayed])).await
    }
}

impl<T, C: Codec> DelayedQueue<T, C> {
    /// How many elements are due.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn due(&self) -> Result<u64, ObjectError> {
        Ok(self.look().await?.0)
    }

    /// How many elements it has, due or not.
    ///
    /// # Errors
    ///
    /// As [`DelayedQueue::due`].
    ///
    /// # Cancel safety
    ///
    /// As [`DelayedQueue::due`].
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        let (due, later, _) = self.look().await?;
        Ok(due + later)
    }

    /// Whether it has none, due or not.
    ///
    /// # Errors
    ///
    /// As [`DelayedQueue::due`].
    ///
    /// # Cancel safety
    ///
    /// As [`DelayedQueue::due`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all elements, due or not, in one step; tells whether there were any.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        let gone: u64 = self.of.place.change(Request::command("DEL").keys(self.keys()?)).await?;
        Ok(gone > 0)
    }

    /// Removes an element that is not taken yet; tells whether it was still there. One that a client of Redisson has found due is not found.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn cancel(&self, delayed: &Delayed) -> Result<bool, ObjectError> {
        let [_, of, _] = self.keys()?;
        self.of.place.change(CANCEL.with([of]).arg(delayed.0.clone())).await
    }
}

impl<T, C: Encode<T>> DelayedQueue<T, C> {
    /// Adds an element that is due after a delay, of 3,650 days at most, in whole milliseconds by the server's clock; a part of one counts as a whole.
    /// What is due in the same millisecond is taken in the order in which it was pushed. Tells what it can be cancelled by.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a longer delay.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "offer")]
    pub async fn push(&self, value: &T, delay: Duration) -> Result<Delayed, ObjectError> {
        let mut pushed = self.push_many([(value, delay)]).await?;
        Ok(pushed.pop().unwrap_or(Delayed(Bytes::new())))
    }

    /// Adds elements, each with its delay; tells what each can be cancelled by. 500 of them or about 4 MiB go in one step.
    ///
    /// # Errors
    ///
    /// As [`DelayedQueue::push`]; behind the first part [`ObjectError::Partial`]: as many as it says of the first are added.
    ///
    /// # Cancel safety
    ///
    /// As [`DelayedQueue::push`].
    pub async fn push_many<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a T, Duration)>,
    ) -> Result<Vec<Delayed>, ObjectError>
    where
        T: 'a,
    {
        let (name, key) = self.of.place.named()?;
        let [_, of, _] = self.keys()?;
        let encoded = values.into_iter().map(|(value, delay)| Ok((self.millis(delay)?, self.of.encoded(value)?)));
        let values: Vec<(i64, Bytes)> = encoded.collect::<Result<_, ObjectError>>()?;
        let mut pushed = Vec::with_capacity(values.len());
        for part in parts(&values, |(_, value)| value.len()) {
            let request = DELAY.with([of.clone()]).publish_here().arg(channel(key)).arg(redissons(key));
            let request = part.iter().fold(request, |request, (delay, value)| request.int(*delay).arg(value.clone()));
            let ids: Result<Vec<Bytes>, _> = self.of.place.change(request).await;
            let ids = ids.map_err(|error| error.after(name, pushed.len() as u64))?;
            pushed.extend(ids.iter().zip(part).map(|(id, (_, value))| packed(id, value)));
        }
        Ok(pushed)
    }

    fn millis(&self, delay: Duration) -> Result<i64, ObjectError> {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        match i64::try_from(millis) {
            Ok(millis) if delay <= *LIFETIMES.end() => Ok(millis),
            _ => Err(self.of.place.invalid("delay", "up to 3650 days", format_args!("{delay:?}"))),
        }
    }
}

impl<T, C: Decode<T>> DelayedQueue<T, C> {
    /// The first element that is due, which stays; `None` where none is, or where the first is no item of a delayed queue, which who takes is told.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn peek(&self) -> Result<Option<T>, ObjectError> {
        self.of.maybe(self.look().await?.2)
    }

    /// The first elements that are delayed, `most` of them at most, and how long each has to wait yet by the server's clock: zero of what is due and
    /// not taken.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is an error of all.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_delayed(&self, most: u64) -> Result<Vec<(T, Duration)>, ObjectError> {
        let most = self.of.counted("most", most)?;
        if most == 0 {
            return Ok(Vec::new());
        }
        let [_, of, _] = self.keys()?;
        let time: Request = Request::command("TIME").idempotent();
        let range = Request::command("ZRANGE").key(of).int(0).int(most - 1).arg("WITHSCORES").idempotent();
        let (Pairs(found), clock): (Pairs<Bytes, f64>, (u64, u64)) =
            self.of.place.ask(Request::together([range, time])).await?;
        let now = clock.0 as f64 * 1e3 + clock.1 as f64 / 1e3;
        let one = |(member, due): (Bytes, f64)| {
            let left = Duration::try_from_secs_f64((due - now) / 1e3).unwrap_or(Duration::ZERO);
            Ok((self.of.one(&unpacked(&member))?, left))
        };
        found.into_iter().map(one).collect()
    }

    /// Takes the first element that is due, and waits until one is: as [`Queue::take`](crate::Queue::take).
    ///
    /// # Errors
    ///
    /// As [`Queue::take`](crate::Queue::take).
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::take`](crate::Queue::take): what is put back is in front of all that is due, whatever that is.
    pub async fn take(&self) -> Result<T, ObjectError> {
        loop {
            if let Some(value) = self.taken(None).await? {
                return Ok(value);
            }
        }
    }

    /// The same, for so long at most: `None` where none was due. It is asked for once at least; zero asks once.
    ///
    /// # Errors
    ///
    /// As [`DelayedQueue::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`DelayedQueue::take`].
    #[doc(alias = "poll")]
    pub async fn take_within(&self, within: Duration) -> Result<Option<T>, ObjectError> {
        self.taken(Some(within)).await
    }

    async fn taken(&self, within: Option<Duration>) -> Result<Option<T>, ObjectError> {
        let (name, keys) = (self.of.name()?.clone(), self.keys()?);
        let queue = TakeWaiters::of(self.of.place.client(), &keys[0].clone(), || DueElements { keys });
        self.of.maybe(select::take(&[(name, queue)], within).await?.map(|(_, bytes)| bytes))
    }
}

/// An element behind its id, as Redisson packs it: `Bc0Lc0` of Lua's struct.
fn packed(id: &[u8], value: &[u8]) -> Delayed {
    let length = (value.len() as u64).to_le_bytes();
    Delayed([&[ID], id, &length, value].concat().into())
}

/// The element of an item.
fn unpacked(member: &Bytes) -> Bytes {
    let head = 1 + usize::from(member.first().copied().unwrap_or_default()) + 8;
    member.slice(head.min(member.len())..)
}
