//! The deque: elements are added and taken at both ends.

use std::time::Duration;

use futures_util::stream::BoxStream;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, layouts};

use crate::elements::{Elements, list_methods, queue_type};
use crate::ends::{End, take_queue};
use crate::select;

queue_type! {
    /// A queue with two ends, shared by all processes that reach the same server.
    ///
    /// On the wire it is Redisson's `RDeque` and `RBlockingDeque`.
    ///
    /// It is cheap to clone; clones are handles of the same deque. The codec `C` is part of the
    /// type, as for a [`Queue`](crate::Queue). A queue of the same name is the same object. Methods
    /// that a queue also has give the same guarantees.
    #[doc(alias = "RDeque")]
    #[doc(alias = "RBlockingDeque")]
    #[doc(alias = "RedissonDeque")]
    #[doc(alias = "RedissonBlockingDeque")]
    pub struct Deque: alone
}

list_methods!(Deque);

impl<T, C: Codec> Deque<T, C> {
    /// Adds an element at the front, and returns the number of elements.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "addFirst")]
    #[doc(alias = "offerFirst")]
    #[doc(alias = "putFirst")]
    #[doc(alias = "push")]
    pub async fn push_front<Q: ?Sized>(&self, value: &Q) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.push_many(End::Front, [value]).await
    }

    /// Adds an element at the back, and returns the number of elements.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Deque::push_front`].
    #[doc(alias = "addLast")]
    #[doc(alias = "offerLast")]
    #[doc(alias = "putLast")]
    pub async fn push_back<Q: ?Sized>(&self, value: &Q) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.push_many(End::Back, [value]).await
    }

    /// Adds elements at an end, one after the other, and returns the number of elements.
    ///
    /// Of several elements added at the front, the last one is in front afterwards. Up to 500 of
    /// them or about 4 MiB are added in one step. Between two steps, other processes may add
    /// elements.
    ///
    /// # Errors
    ///
    /// As for [`Deque::push_front`]; after the first step [`ObjectError::Partial`], with the number
    /// of elements that were added.
    ///
    /// # Cancel safety
    ///
    /// As for [`Deque::push_front`].
    #[doc(alias = "addFirst")]
    #[doc(alias = "addLast")]
    pub async fn push_many<'a, Q: ?Sized + 'a>(
        &self,
        end: End,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.push(end, false, values).await
    }

    /// Adds elements at an end, as [`Deque::push_many`], if the deque exists.
    ///
    /// Returns the number of elements, 0 if the deque does not exist.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Deque::push_many`].
    #[doc(alias = "addFirstIfExists")]
    #[doc(alias = "addLastIfExists")]
    pub async fn push_many_if_exists<'a, Q: ?Sized + 'a>(
        &self,
        end: End,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.push(end, true, values).await
    }

    /// Returns whether an element has this value. The server searches the deque.
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

    /// Removes the element with this value that is nearest to an end, and returns whether there was
    /// one. The server searches the deque.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeFirstOccurrence")]
    #[doc(alias = "removeLastOccurrence")]
    pub async fn remove<Q: ?Sized>(&self, from: End, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.remove(from, value).await
    }
}

impl<T, C: Decode<T>> Deque<T, C> {
    /// Removes and returns the element at the front, as [`Queue::pop`](crate::Queue::pop); `None`
    /// if there is none.
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
    #[doc(alias = "pollFirst")]
    #[doc(alias = "removeFirst")]
    #[doc(alias = "poll")]
    #[doc(alias = "pop")]
    pub async fn pop_front(&self) -> Result<Option<T>, ObjectError> {
        self.elements.pop(End::Front).await
    }

    /// Removes and returns the element at the back; `None` if there is none.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Deque::pop_front`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "removeLast")]
    pub async fn pop_back(&self) -> Result<Option<T>, ObjectError> {
        self.elements.pop(End::Back).await
    }

    /// Removes and returns up to `most` elements from an end, in the order of their removal. Up to
    /// 10,000 are removed in one step.
    ///
    /// # Errors
    ///
    /// As for [`Deque::pop_front`]; after the first 10,000 [`ObjectError::Partial`]. If one cannot
    /// be decoded, the call fails, and all are removed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Deque::pop_front`].
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollLast")]
    #[doc(alias = "drainTo")]
    pub async fn pop_many(&self, end: End, most: u64) -> Result<Vec<T>, ObjectError> {
        self.elements.pop_many(end, most).await
    }

    /// Returns the element at the front, which stays; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "peekFirst")]
    #[doc(alias = "getFirst")]
    pub async fn front(&self) -> Result<Option<T>, ObjectError> {
        self.elements.peek(End::Front).await
    }

    /// Returns the element at the back, which stays; `None` if there is none.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Deque::front`].
    #[doc(alias = "peekLast")]
    #[doc(alias = "getLast")]
    pub async fn back(&self) -> Result<Option<T>, ObjectError> {
        self.elements.peek(End::Back).await
    }

    /// Returns all elements from the front on, in one reply. [`Deque::stream`] is for large deques.
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

    /// Moves the element at an end to an end of another deque or of this one, in one step, and
    /// returns it; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As for [`Deque::pop_front`]; [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// if the other deque is in another slot of a cluster. An element that cannot be decoded is
    /// moved nevertheless.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "move")]
    #[doc(alias = "pollLastAndOfferFirstTo")]
    pub async fn move_to(&self, from: End, to: impl AsRef<str>, to_end: End) -> Result<Option<T>, ObjectError> {
        self.elements.move_element(from, to.as_ref(), to_end).await
    }

    /// Takes the element at an end, and waits for one if there is none, as
    /// [`Queue::take`](crate::Queue::take).
    ///
    /// # Errors
    ///
    /// As for [`Queue::take`](crate::Queue::take).
    ///
    /// # Cancel safety
    ///
    /// As for [`Queue::take`](crate::Queue::take): elements are put back at this end.
    #[doc(alias = "takeFirst")]
    #[doc(alias = "takeLast")]
    pub async fn take(&self, end: End) -> Result<T, ObjectError> {
        loop {
            if let Some(value) = self.take_from(end, None).await? {
                return Ok(value);
            }
        }
    }

    /// Takes the element at an end, and waits up to `within` for one; `None` if there was none in
    /// time.
    ///
    /// The server is polled at least once. If `within` is zero, it is polled exactly once.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Deque::take`].
    #[doc(alias = "pollFirst")]
    #[doc(alias = "pollLast")]
    pub async fn take_within(&self, end: End, within: Duration) -> Result<Option<T>, ObjectError> {
        self.take_from(end, Some(within)).await
    }

    async fn take_from(&self, end: End, timeout: Option<Duration>) -> Result<Option<T>, ObjectError> {
        let queue = take_queue(&self.elements.place, end)?;
        self.elements.decode_optional(select::take(&[queue], timeout).await?.map(|(_, bytes)| bytes))
    }
}

impl<T: Send + 'static, C: Decode<T>> Deque<T, C> {
    /// Returns a stream over all elements from the front on, as
    /// [`Queue::stream`](crate::Queue::stream).
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        self.elements.stream()
    }
}
