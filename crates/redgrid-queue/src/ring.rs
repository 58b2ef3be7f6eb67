//! The ring: a queue of so many elements at most, whose oldest go when it is full.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, ObjectError, chunks, layouts};
use redgrid_core::{Client, Request, Script};

use crate::elements::{Elements, counted, queue};
use crate::ends::End;

static PUSH: Script<2> = Script::new("queue/ring_push", include_str!("scripts/ring_push.lua"));
static SET_CAPACITY: Script<2> = Script::new("queue/ring_capacity", include_str!("scripts/ring_capacity.lua"));

/// Room for more than this is no bound: numbers of scripts are exact up to there.
const LARGEST: u64 = 1 << 53;

queue! {
    /// The last elements that were pushed, as many as it has room for, shared by all processes that reach the same server. Redisson's
    /// `RRingBuffer` on the wire.
    ///
    /// Cheap to clone; clones are the same ring. The codec `C` is as that of a [`Queue`](crate::Queue). It takes elements once its capacity is
    /// set, which stays when its elements go.
    #[doc(alias = "RRingBuffer")]
    #[doc(alias = "RedissonRingBuffer")]
    pub struct RingBuffer: ring_buffer, 2 keys
}

impl<T, C> RingBuffer<T, C> {
    fn keys(&self) -> Result<[Bytes; 2], ObjectError> {
        let key = self.of.key()?;
        Ok([key.clone(), companion("redisson_rb", &key)])
    }
}

impl<T, C: Codec> RingBuffer<T, C> {
    /// Sets how many elements it has room for where that is not set; tells whether it is set by this.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then;
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) of 0 and of more than 2^53.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "trySetCapacity")]
    pub async fn try_set_capacity(&self, capacity: u64) -> Result<bool, ObjectError> {
        let [_, of] = self.keys()?;
        self.of.place.change(Request::command("SETNX").key(of).int(self.room(capacity)?)).await
    }

    /// Sets how many elements it has room for. As many of the oldest go as are too many, which is told.
    ///
    /// # Errors
    ///
    /// As [`RingBuffer::try_set_capacity`].
    ///
    /// # Cancel safety
    ///
    /// As [`RingBuffer::try_set_capacity`].
    #[doc(alias = "setCapacity")]
    pub async fn set_capacity(&self, capacity: u64) -> Result<u64, ObjectError> {
        self.of.place.change(SET_CAPACITY.with(self.keys()?).int(self.room(capacity)?)).await
    }

    fn room(&self, capacity: u64) -> Result<i64, ObjectError> {
        match capacity {
            1..=LARGEST => Ok(capacity.cast_signed()),
            _ => Err(self.of.place.invalid("capacity", format_args!("1 to {LARGEST}"), capacity)),
        }
    }

    /// How many elements it has room for in all; `None` where that is not set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn capacity(&self) -> Result<Option<u64>, ObjectError> {
        let [_, of] = self.keys()?;
        self.of.place.read(Request::command("GET").key(of)).await
    }

    /// How many more it takes before the oldest go; `None` where no capacity is set.
    ///
    /// # Errors
    ///
    /// As [`RingBuffer::capacity`].
    ///
    /// # Cancel safety
    ///
    /// As [`RingBuffer::capacity`].
    #[doc(alias = "remainingCapacity")]
    pub async fn remaining_capacity(&self) -> Result<Option<u64>, ObjectError> {
        let [key, of] = self.keys()?;
        let both = [Request::command("GET").key(of).idempotent(), Request::command("LLEN").key(key).idempotent()];
        let (room, length): (Option<u64>, u64) = self.of.place.read_primary(Request::together(both)).await?;
        Ok(room.map(|room| room.saturating_sub(length)))
    }
}

counted!(RingBuffer, " Its capacity stays: `object().delete()` removes both.");

impl<T, C: Encode<T>> RingBuffer<T, C> {
    /// Adds an element at the back; tells how many of the oldest went.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Absent`], and nothing is added, where no capacity is set.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    #[doc(alias = "offer")]
    pub async fn push(&self, value: &T) -> Result<u64, ObjectError> {
        self.push_many([value]).await
    }

    /// Adds elements at the back, in their order; tells how many of the oldest went. 500 of them or about 4 MiB go in one step; of more, what
    /// others add may come in between.
    ///
    /// # Errors
    ///
    /// As [`RingBuffer::push`]; behind the first part [`ObjectError::Partial`]: as many as it says of the first are added.
    ///
    /// # Cancel safety
    ///
    /// As [`RingBuffer::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        let (name, _) = self.of.place.name_and_key()?;
        let values = self.of.encoded_all(values)?;
        let (mut gone, mut done) = (0, 0);
        for part in chunks(&values, Bytes::len) {
            let request = part.iter().cloned().fold(PUSH.with(self.keys()?), Request::arg);
            let told: Option<(u64, u64)> =
                self.of.place.change(request).await.map_err(|error| error.after(name, done))?;
            let Some((_, went)) = told else {
                return Err(ObjectError::Absent { name: name.clone() }.after(name, done));
            };
            gone += went;
            done += part.len() as u64;
        }
        Ok(gone)
    }

    /// Whether an element is this value. The server looks through the ring.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains(&self, value: &T) -> Result<bool, ObjectError> {
        self.of.contains(value).await
    }

    /// Removes the oldest element that is this value; tells whether there was one. The server looks through the ring.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove(&self, value: &T) -> Result<bool, ObjectError> {
        self.of.remove(End::Front, value).await
    }
}

impl<T, C: Decode<T>> RingBuffer<T, C> {
    /// Removes the oldest element; tells it, `None` where there is none. As [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: the element is lost.
    #[doc(alias = "poll")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        self.of.pop(End::Front).await
    }

    /// Removes up to `most` of the oldest elements, as [`Queue::pop_many`](crate::Queue::pop_many).
    ///
    /// # Errors
    ///
    /// As [`RingBuffer::pop`]; behind the first 10,000 [`ObjectError::Partial`].
    ///
    /// # Cancel safety
    ///
    /// As [`RingBuffer::pop`].
    #[doc(alias = "poll")]
    pub async fn pop_many(&self, most: u64) -> Result<Vec<T>, ObjectError> {
        self.of.pop_many(End::Front, most).await
    }

    /// The oldest element, which stays; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "element")]
    pub async fn peek(&self) -> Result<Option<T>, ObjectError> {
        self.of.peek(End::Front).await
    }

    /// All elements in one answer, the oldest first.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is an error of all.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAll")]
    #[doc(alias = "toArray")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.of.read_all().await
    }
}

impl<T: Send + 'static, C: Decode<T>> RingBuffer<T, C> {
    /// All elements, the oldest first, as [`Queue::stream`](crate::Queue::stream).
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        self.of.stream()
    }
}
