//! The ring: a queue of limited length. Its oldest elements are removed when it is full.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, ObjectError, chunks, layouts};
use redgrid_core::{Client, Request, Script};

use crate::elements::{Elements, list_methods, queue_type};
use crate::ends::End;

static PUSH: Script<2> = Script::new("queue/ring_push", include_str!("scripts/ring_push.lua"));
static SET_CAPACITY: Script<2> = Script::new("queue/ring_capacity", include_str!("scripts/ring_capacity.lua"));

/// Largest capacity: Lua's numbers are exact integers up to this value.
const MAX_CAPACITY: u64 = 1 << 53;

queue_type! {
    /// The elements that were added last, up to a capacity, shared by all processes that reach the
    /// same server.
    ///
    /// On the wire it is Redisson's `RRingBuffer`.
    ///
    /// It is cheap to clone; clones are handles of the same ring. The codec `C` is part of the
    /// type, as for a [`Queue`](crate::Queue). The capacity must be set before elements can be
    /// added. The capacity stays when the elements are removed.
    #[doc(alias = "RRingBuffer")]
    #[doc(alias = "RedissonRingBuffer")]
    pub struct RingBuffer: ring_buffer, 2 keys
}

impl<T, C> RingBuffer<T, C> {
    fn keys(&self) -> Result<[Bytes; 2], ObjectError> {
        let key = self.elements.key()?;
        Ok([key.clone(), companion("redisson_rb", &key)])
    }
}

impl<T, C: Codec> RingBuffer<T, C> {
    /// Sets the capacity if none is set, and returns whether this call has set it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for 0 and for more than 2^53.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "trySetCapacity")]
    pub async fn try_set_capacity(&self, capacity: u64) -> Result<bool, ObjectError> {
        let [_, capacity_key] = self.keys()?;
        self.elements.place.change(Request::command("SETNX").key(capacity_key).int(self.checked(capacity)?)).await
    }

    /// Sets the capacity, and removes the oldest elements beyond it. Returns how many were removed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`RingBuffer::try_set_capacity`].
    #[doc(alias = "setCapacity")]
    pub async fn set_capacity(&self, capacity: u64) -> Result<u64, ObjectError> {
        self.elements.place.change(SET_CAPACITY.with(self.keys()?).int(self.checked(capacity)?)).await
    }

    fn checked(&self, capacity: u64) -> Result<i64, ObjectError> {
        match capacity {
            1..=MAX_CAPACITY => Ok(capacity.cast_signed()),
            _ => Err(self.elements.place.invalid("capacity", format_args!("1 to {MAX_CAPACITY}"), capacity)),
        }
    }

    /// Returns the capacity; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn capacity(&self) -> Result<Option<u64>, ObjectError> {
        let [_, capacity_key] = self.keys()?;
        self.elements.place.read(Request::command("GET").key(capacity_key)).await
    }

    /// Returns how many elements can be added before the oldest are removed; `None` if no capacity
    /// is set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`RingBuffer::capacity`].
    #[doc(alias = "remainingCapacity")]
    pub async fn remaining_capacity(&self) -> Result<Option<u64>, ObjectError> {
        let [key, capacity_key] = self.keys()?;
        let capacity = Request::command("GET").key(capacity_key).idempotent();
        let length = Request::command("LLEN").key(key).idempotent();
        let (capacity, length): (Option<u64>, u64) =
            self.elements.place.read_primary(Request::together([capacity, length])).await?;
        Ok(capacity.map(|capacity| capacity.saturating_sub(length)))
    }
}

list_methods!(RingBuffer, " The capacity stays; `object().delete()` removes both.");

impl<T, C: Codec> RingBuffer<T, C> {
    /// Adds an element at the back, and returns how many of the oldest were removed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. If no capacity is
    /// set, nothing is added, and the error is [`ObjectError::Absent`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    #[doc(alias = "offer")]
    pub async fn push<Q: ?Sized>(&self, value: &Q) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.push_many([value]).await
    }

    /// Adds elements at the back, in their order, and returns how many of the oldest were removed.
    ///
    /// Up to 500 of them or about 4 MiB are added in one step. Between two steps, other processes
    /// may add elements.
    ///
    /// # Errors
    ///
    /// As for [`RingBuffer::push`]; after the first step [`ObjectError::Partial`], with the number
    /// of elements that were added.
    ///
    /// # Cancel safety
    ///
    /// As for [`RingBuffer::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, _) = self.elements.place.name_and_key()?;
        let values = self.elements.encode_all(values)?;
        let (mut removed, mut pushed) = (0, 0);
        for part in chunks(&values, Bytes::len) {
            let request = part.iter().cloned().fold(PUSH.with(self.keys()?), Request::arg);
            let reply: Option<(u64, u64)> =
                self.elements.place.change(request).await.map_err(|error| error.after(name, pushed))?;
            let Some((_, removed_now)) = reply else {
                return Err(ObjectError::Absent { name: name.clone() }.after(name, pushed));
            };
            removed += removed_now;
            pushed += part.len() as u64;
        }
        Ok(removed)
    }

    /// Returns whether an element has this value. The server searches the ring.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.contains(value).await
    }

    /// Removes the oldest element with this value, and returns whether there was one. The server
    /// searches the ring.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.remove(End::Front, value).await
    }
}

impl<T, C: Decode<T>> RingBuffer<T, C> {
    /// Removes and returns the oldest element, as [`Queue::pop`](crate::Queue::pop); `None` if
    /// there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. An element that
    /// cannot be decoded is removed nevertheless.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped: the element is
    /// lost.
    #[doc(alias = "poll")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        self.elements.pop(End::Front).await
    }

    /// Removes and returns up to `most` of the oldest elements, as
    /// [`Queue::pop_many`](crate::Queue::pop_many).
    ///
    /// # Errors
    ///
    /// As for [`RingBuffer::pop`]; after the first 10,000 [`ObjectError::Partial`].
    ///
    /// # Cancel safety
    ///
    /// As for [`RingBuffer::pop`].
    #[doc(alias = "poll")]
    pub async fn pop_many(&self, most: u64) -> Result<Vec<T>, ObjectError> {
        self.elements.pop_many(End::Front, most).await
    }

    /// Returns the oldest element, which stays; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "element")]
    pub async fn peek(&self) -> Result<Option<T>, ObjectError> {
        self.elements.peek(End::Front).await
    }

    /// Returns all elements in one reply, the oldest first.
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
    #[doc(alias = "toArray")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.elements.read_all().await
    }
}

impl<T: Send + 'static, C: Decode<T>> RingBuffer<T, C> {
    /// Returns a stream over all elements, the oldest first, as
    /// [`Queue::stream`](crate::Queue::stream).
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        self.elements.stream()
    }
}
