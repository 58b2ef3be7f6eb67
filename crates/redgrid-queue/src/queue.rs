//! The queue: elements are added at the back and taken from the front.

use std::time::Duration;

use futures_util::stream::BoxStream;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, layouts};

use crate::elements::{Elements, list_methods, queue_type};
use crate::ends::{End, take_queue};
use crate::select;

queue_type! {
    /// Elements of type `T` in the order in which they were added, shared by all processes that
    /// reach the same server.
    ///
    /// On the wire it is Redisson's `RQueue` and `RBlockingQueue`.
    ///
    /// It is cheap to clone; clones are handles of the same queue. The codec `C` is part of the
    /// type: all users of a queue must use the same one. With the feature `json`, the default is
    /// `Json`. A queue exists while it has elements. A [`Deque`](crate::Deque) of the same name is
    /// the same object.
    #[doc(alias = "RQueue")]
    #[doc(alias = "RBlockingQueue")]
    #[doc(alias = "RedissonQueue")]
    #[doc(alias = "RedissonBlockingQueue")]
    pub struct Queue: alone
}

list_methods!(Queue);

impl<T, C: Codec> Queue<T, C> {
    /// Adds an element at the back, and returns the number of elements. The call sends one request,
    /// which also wakes waiters.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    #[doc(alias = "offer")]
    #[doc(alias = "put")]
    pub async fn push<Q: ?Sized>(&self, value: &Q) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.push(End::Back, false, [value]).await
    }

    /// Adds elements at the back, in their order, and returns the number of elements.
    ///
    /// Up to 500 of them or about 4 MiB are added in one step. Between two steps, other processes
    /// may add elements.
    ///
    /// # Errors
    ///
    /// As for [`Queue::push`]; after the first step [`ObjectError::Partial`], with the number of
    /// elements that were added.
    ///
    /// # Cancel safety
    ///
    /// As for [`Queue::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.elements.push(End::Back, false, values).await
    }

    /// Returns whether an element has this value. The server searches the queue.
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

    /// Removes the first element with this value, and returns whether there was one. The server
    /// searches the queue.
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

impl<T, C: Decode<T>> Queue<T, C> {
    /// Removes and returns the element at the front; `None` if there is none.
    ///
    /// The call sends one command, once. The element is lost if the reply is lost or the future is
    /// dropped. [`Queue::take_within`] with zero does not lose it.
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
    #[doc(alias = "remove")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        self.elements.pop(End::Front).await
    }

    /// Removes and returns up to `most` elements from the front, in their order. Up to 10,000 are
    /// removed in one step.
    ///
    /// # Errors
    ///
    /// As for [`Queue::pop`]; after the first 10,000 [`ObjectError::Partial`]. If one cannot be
    /// decoded, the call fails, and all are removed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Queue::pop`].
    #[doc(alias = "poll")]
    #[doc(alias = "drainTo")]
    pub async fn pop_many(&self, most: u64) -> Result<Vec<T>, ObjectError> {
        self.elements.pop_many(End::Front, most).await
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
    #[doc(alias = "element")]
    pub async fn peek(&self) -> Result<Option<T>, ObjectError> {
        self.elements.peek(End::Front).await
    }

    /// Returns all elements in one reply. [`Queue::stream`] is for large queues.
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

    /// Moves the element at the back to the front of another queue or of this one, in one step, and
    /// returns it; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As for [`Queue::pop`]; [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the
    /// other queue is in another slot of a cluster. An element that cannot be decoded is moved
    /// nevertheless.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "pollLastAndOfferFirstTo")]
    pub async fn pop_last_push_first_to(&self, to: impl AsRef<str>) -> Result<Option<T>, ObjectError> {
        self.elements.move_element(End::Back, to.as_ref(), End::Front).await
    }

    /// Takes the element at the front, and waits for one if there is none.
    ///
    /// While the queue is empty, the wait ends only if contact with the server is lost. The waiters
    /// of a process are served in the order of their calls, by one request for all of them.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(jobs: redgrid_queue::Queue<u64>) -> Result<(), redgrid_queue::ObjectError> {
    /// loop {
    ///     let job = jobs.take().await?;
    ///     println!("{job}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`](crate::Failure::Unavailable) or
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown) if no server answers for
    /// `response_timeout × (retries + 1)`. An element that was taken for this call goes to another
    /// caller, or is put back. [`ObjectError::Decode`] if the element cannot be decoded; the
    /// element is removed nevertheless.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe. An element that was taken for a dropped call goes to the next waiter of this
    /// process. If there is no waiter, the element is put back to the front, also during a shutdown
    /// of the client. The element is lost if the process ends before that, or if no server answers
    /// for 30 s. A dropped call loses its position among the waiters.
    #[doc(alias = "BLPOP")]
    pub async fn take(&self) -> Result<T, ObjectError> {
        loop {
            if let Some((_, value)) = self.take_from(&[], None).await? {
                return Ok(value);
            }
        }
    }

    /// Takes the element at the front, and waits up to `within` for one; `None` if there was none
    /// in time.
    ///
    /// The server is polled at least once. If `within` is zero, it is polled exactly once.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Queue::take`].
    #[doc(alias = "poll")]
    pub async fn take_within(&self, within: Duration) -> Result<Option<T>, ObjectError> {
        Ok(self.take_from(&[], Some(within)).await?.map(|(_, value)| value))
    }

    /// Takes an element of this queue or of others, and returns it with the index of its queue: 0
    /// for this one, 1 for the first of the others.
    ///
    /// If several queues have elements, the first of them in this order is taken from. If all are
    /// empty, the call takes from the queue that first gets an element. The queues may be in
    /// different slots of a cluster. Elements that were taken from other queues at the same time
    /// are put back.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Queue::take`].
    #[doc(alias = "pollFromAny")]
    #[doc(alias = "pollFirstFromAny")]
    pub async fn take_from_any(&self, others: &[Queue<T, C>]) -> Result<(usize, T), ObjectError> {
        loop {
            if let Some(taken) = self.take_from(others, None).await? {
                return Ok(taken);
            }
        }
    }

    /// Takes an element of this queue or of others, as [`Queue::take_from_any`], and waits up to
    /// `within`; `None` if there was none in time.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Queue::take_within`].
    #[doc(alias = "pollFromAny")]
    #[doc(alias = "pollFromAnyWithName")]
    pub async fn take_from_any_within(
        &self,
        others: &[Queue<T, C>],
        within: Duration,
    ) -> Result<Option<(usize, T)>, ObjectError> {
        self.take_from(others, Some(within)).await
    }

    async fn take_from(
        &self,
        others: &[Queue<T, C>],
        timeout: Option<Duration>,
    ) -> Result<Option<(usize, T)>, ObjectError> {
        let all = || [self].into_iter().chain(others);
        let queues = all().map(|queue| take_queue(&queue.elements.place, End::Front));
        let queues: Vec<_> = queues.collect::<Result<_, ObjectError>>()?;
        let Some((index, bytes)) = select::take(&queues, timeout).await? else { return Ok(None) };
        let queue = all().nth(index).unwrap_or(self);
        Ok(Some((index, queue.elements.decode(&bytes)?)))
    }
}

impl<T: Send + 'static, C: Decode<T>> Queue<T, C> {
    /// Returns a stream over all elements from the front on, read in pages of 100 by index.
    ///
    /// If other processes change the queue meanwhile, the stream may miss an element or return it
    /// twice. If an element cannot be decoded, the stream returns an error and continues. After any
    /// other error it ends.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        self.elements.stream()
    }
}
