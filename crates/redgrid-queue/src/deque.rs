//! The deque: in and out at both ends.

use std::time::Duration;

use futures_util::stream::BoxStream;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, layouts};

use crate::elements::{Elements, counted, queue};
use crate::ends::{End, take_queue};
use crate::select;

queue! {
    /// A queue with two ends, shared by all processes that reach the same server. Redisson's `RDeque` and `RBlockingDeque` on the wire.
    ///
    /// Cheap to clone; clones are the same deque. The codec `C` is as that of a [`Queue`](crate::Queue), which is the same where it has
    /// the same name. What its methods promise where they are called as that queue's is what they promise there.
    #[doc(alias = "RDeque")]
    #[doc(alias = "RBlockingDeque")]
    #[doc(alias = "RedissonDeque")]
    #[doc(alias = "RedissonBlockingDeque")]
    pub struct Deque: alone
}

counted!(Deque);

impl<T, C: Encode<T>> Deque<T, C> {
    /// Adds an element at the front; tells how many there are then.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addFirst")]
    #[doc(alias = "offerFirst")]
    #[doc(alias = "putFirst")]
    #[doc(alias = "push")]
    pub async fn push_front(&self, value: &T) -> Result<u64, ObjectError> {
        self.push_many(End::Front, [value]).await
    }

    /// Adds an element at the back; tells how many there are then.
    ///
    /// # Errors
    ///
    /// As [`Deque::push_front`].
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::push_front`].
    #[doc(alias = "addLast")]
    #[doc(alias = "offerLast")]
    #[doc(alias = "putLast")]
    pub async fn push_back(&self, value: &T) -> Result<u64, ObjectError> {
        self.push_many(End::Back, [value]).await
    }

    /// Adds elements at an end, one after the other: of several at the front the last is in front then. Tells how many there are. 500 of them or
    /// about 4 MiB go in one step; of more, what others add may come in between.
    ///
    /// # Errors
    ///
    /// As [`Deque::push_front`]; behind the first part [`ObjectError::Partial`]: as many as it says of the first are added.
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::push_front`].
    #[doc(alias = "addFirst")]
    #[doc(alias = "addLast")]
    pub async fn push_many<'a>(&self, end: End, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        self.of.push(end, false, values).await
    }

    /// The same where the deque is there; tells how many elements there are then, 0 where it is not.
    ///
    /// # Errors
    ///
    /// As [`Deque::push_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::push_front`].
    #[doc(alias = "addFirstIfExists")]
    #[doc(alias = "addLastIfExists")]
    pub async fn push_many_if_exists<'a>(
        &self,
        end: End,
        values: impl IntoIterator<Item = &'a T>,
    ) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        self.of.push(end, true, values).await
    }

    /// Whether an element is this value. The server looks through the deque.
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

    /// Removes the element nearest to an end that is this value; tells whether there was one. The server looks through the deque.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeFirstOccurrence")]
    #[doc(alias = "removeLastOccurrence")]
    pub async fn remove(&self, from: End, value: &T) -> Result<bool, ObjectError> {
        self.of.remove(from, value).await
    }
}

impl<T, C: Decode<T>> Deque<T, C> {
    /// Removes the element at the front; tells it, `None` where there is none. As [`Queue::pop`](crate::Queue::pop).
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: the element is lost.
    #[doc(alias = "pollFirst")]
    #[doc(alias = "removeFirst")]
    #[doc(alias = "poll")]
    #[doc(alias = "pop")]
    pub async fn pop_front(&self) -> Result<Option<T>, ObjectError> {
        self.of.pop(End::Front).await
    }

    /// Removes the element at the back; tells it, `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`Deque::pop_front`].
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::pop_front`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "removeLast")]
    pub async fn pop_back(&self) -> Result<Option<T>, ObjectError> {
        self.of.pop(End::Back).await
    }

    /// Removes up to `most` elements at an end, in one step where they are no more than 10,000; tells them as they went.
    ///
    /// # Errors
    ///
    /// As [`Deque::pop_front`]; behind the first 10,000 [`ObjectError::Partial`]. One that can not be decoded is an error of all.
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::pop_front`].
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollLast")]
    #[doc(alias = "drainTo")]
    pub async fn pop_many(&self, end: End, most: u64) -> Result<Vec<T>, ObjectError> {
        self.of.pop_many(end, most).await
    }

    /// The element at the front, which stays; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "peekFirst")]
    #[doc(alias = "getFirst")]
    pub async fn front(&self) -> Result<Option<T>, ObjectError> {
        self.of.peek(End::Front).await
    }

    /// The element at the back, which stays; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`Deque::front`].
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::front`].
    #[doc(alias = "peekLast")]
    #[doc(alias = "getLast")]
    pub async fn back(&self) -> Result<Option<T>, ObjectError> {
        self.of.peek(End::Back).await
    }

    /// All elements in one answer, from the front on: as large as all of them. For large deques there is [`Deque::stream`].
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

    /// Moves the element at an end to an end of another deque, or of this one, in one step; tells it, `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`Deque::pop_front`]; [`ObjectError::InvalidArgument`] of a deque in another slot of a cluster. One that can not be decoded is moved
    /// all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "move")]
    #[doc(alias = "pollLastAndOfferFirstTo")]
    pub async fn move_to(&self, from: End, to: impl AsRef<str>, to_end: End) -> Result<Option<T>, ObjectError> {
        self.of.moved(from, to.as_ref(), to_end).await
    }

    /// Takes the element at an end, and waits for one where there is none, as [`Queue::take`](crate::Queue::take).
    ///
    /// # Errors
    ///
    /// As [`Queue::take`](crate::Queue::take).
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::take`](crate::Queue::take): what is put back is put back at this end.
    #[doc(alias = "takeFirst")]
    #[doc(alias = "takeLast")]
    pub async fn take(&self, end: End) -> Result<T, ObjectError> {
        loop {
            if let Some(value) = self.taken(end, None).await? {
                return Ok(value);
            }
        }
    }

    /// The same, for so long at most: `None` where none came. It is asked for once at least; zero asks once.
    ///
    /// # Errors
    ///
    /// As [`Deque::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`Deque::take`].
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollLast")]
    pub async fn take_within(&self, end: End, within: Duration) -> Result<Option<T>, ObjectError> {
        self.taken(end, Some(within)).await
    }

    async fn taken(&self, end: End, within: Option<Duration>) -> Result<Option<T>, ObjectError> {
        let queue = take_queue(&self.of.place, end)?;
        self.of.maybe(select::take(&[queue], within).await?.map(|(_, bytes)| bytes))
    }
}

impl<T: Send + 'static, C: Decode<T>> Deque<T, C> {
    /// All elements from the front on, as [`Queue::stream`](crate::Queue::stream).
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        self.of.stream()
    }
}
