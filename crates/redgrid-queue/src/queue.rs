//! The queue: in at the back, out at the front.

use std::time::Duration;

use futures_util::stream::BoxStream;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Client;
use redgrid_core::object::{Object, ObjectError, layouts};

use crate::elements::{Elements, counted, queue};
use crate::ends::{End, take_queue};
use crate::select;

queue! {
    /// Elements of type `T` in the order in which they came, shared by all processes that reach the same server. Redisson's `RQueue` and
    /// `RBlockingQueue` on the wire.
    ///
    /// Cheap to clone; clones are the same queue. The codec `C` is part of the type: all who share a queue name the same one. With the feature
    /// `json` it is `Json` where none is named. A queue is there while it has elements. A [`Deque`](crate::Deque) of the same name is the same.
    #[doc(alias = "RQueue")]
    #[doc(alias = "RBlockingQueue")]
    #[doc(alias = "RedissonQueue")]
    #[doc(alias = "RedissonBlockingQueue")]
    pub struct Queue: alone
}

counted!(Queue);

impl<T, C: Encode<T>> Queue<T, C> {
    /// Adds an element at the back; tells how many there are then. One request, which wakes those who wait.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    #[doc(alias = "offer")]
    #[doc(alias = "put")]
    pub async fn push(&self, value: &T) -> Result<u64, ObjectError> {
        self.of.push(End::Back, false, [value]).await
    }

    /// Adds elements at the back, in their order; tells how many there are then. 500 of them or about 4 MiB go in one step; of more,
    /// what others add may come in between.
    ///
    /// # Errors
    ///
    /// As [`Queue::push`]; behind the first part [`ObjectError::Partial`]: as many as it says of the first are added.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        self.of.push(End::Back, false, values).await
    }

    /// Whether an element is this value. The server looks through the queue.
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

    /// Removes the first element that is this value; tells whether there was one. The server looks through the queue.
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

impl<T, C: Decode<T>> Queue<T, C> {
    /// Removes the element at the front; tells it, `None` where there is none. One command, sent once: where its answer is lost, or nobody waits
    /// for it any more, the element is lost. [`Queue::take_within`] of zero loses none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: the element is lost.
    #[doc(alias = "poll")]
    #[doc(alias = "remove")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        self.of.pop(End::Front).await
    }

    /// Removes up to `most` elements at the front, in one step where they are no more than 10,000; tells them in their order.
    ///
    /// # Errors
    ///
    /// As [`Queue::pop`]; behind the first 10,000 [`ObjectError::Partial`]. One that can not be decoded is an error of all, and all are removed.
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::pop`].
    #[doc(alias = "poll")]
    #[doc(alias = "drainTo")]
    pub async fn pop_many(&self, most: u64) -> Result<Vec<T>, ObjectError> {
        self.of.pop_many(End::Front, most).await
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
    #[doc(alias = "element")]
    pub async fn peek(&self) -> Result<Option<T>, ObjectError> {
        self.of.peek(End::Front).await
    }

    /// All elements in one answer: as large as all of them. For large queues there is [`Queue::stream`].
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

    /// Moves the element at the back to the front of another queue, or of this one, in one step; tells it, `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`Queue::pop`]; [`ObjectError::InvalidArgument`] of a queue in another slot of a cluster. One that can not be decoded is moved all
    /// the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "pollLastAndOfferFirstTo")]
    pub async fn pop_last_push_first_to(&self, to: impl AsRef<str>) -> Result<Option<T>, ObjectError> {
        self.of.moved(End::Back, to.as_ref(), End::Front).await
    }

    /// Takes the element at the front, and waits for one where there is none: as long as it takes, but not without contact to the server. Those of
    /// a process who wait are served in the order in which they came, by one request for all of them.
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
    /// [`ObjectError::Unavailable`] or [`ObjectError::OutcomeUnknown`] where no server answers for `response_timeout × (retries + 1)`: what was taken
    /// for this call goes to others, or back. [`ObjectError::Decode`] of an element that can not be decoded, which is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// Safe: an element that was taken for a call that is dropped goes to the next who waits in this process, and else back to the front, also
    /// while the client is shut down. It is lost where the process ends before that, or where no server answers for 30 s. Dropped, it
    /// gives up its place in the line.
    #[doc(alias = "BLPOP")]
    pub async fn take(&self) -> Result<T, ObjectError> {
        loop {
            if let Some(taken) = self.taken(&[], None).await? {
                return Ok(taken.1);
            }
        }
    }

    /// The same, for so long at most: `None` where none came. It is asked for once at least, zero asks once; an unreachable server is told as
    /// by [`Queue::take`].
    ///
    /// # Errors
    ///
    /// As [`Queue::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::take`].
    #[doc(alias = "poll")]
    pub async fn take_within(&self, within: Duration) -> Result<Option<T>, ObjectError> {
        Ok(self.taken(&[], Some(within)).await?.map(|(_, value)| value))
    }

    /// Takes an element of this queue or of others, and tells of which: 0 is this one, 1 the first of the others. Of several that have elements
    /// the first is taken from; where none has, the first that gets one. They may be in different slots of a cluster. What
    /// several get at the same time is put back, but for one.
    ///
    /// # Errors
    ///
    /// As [`Queue::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::take`].
    #[doc(alias = "pollFromAny")]
    #[doc(alias = "pollFirstFromAny")]
    pub async fn take_from_any(&self, others: &[Queue<T, C>]) -> Result<(usize, T), ObjectError> {
        loop {
            if let Some(taken) = self.taken(others, None).await? {
                return Ok(taken);
            }
        }
    }

    /// The same, for so long at most: `None` where none came.
    ///
    /// # Errors
    ///
    /// As [`Queue::take_within`].
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::take`].
    #[doc(alias = "pollFromAny")]
    #[doc(alias = "pollFromAnyWithName")]
    pub async fn take_from_any_within(
        &self,
        others: &[Queue<T, C>],
        within: Duration,
    ) -> Result<Option<(usize, T)>, ObjectError> {
        self.taken(others, Some(within)).await
    }

    async fn taken(&self, others: &[Queue<T, C>], within: Option<Duration>) -> Result<Option<(usize, T)>, ObjectError> {
        let all = || [self].into_iter().chain(others);
        let queues = all().map(|queue| take_queue(&queue.of.place, End::Front));
        let queues: Vec<_> = queues.collect::<Result<_, ObjectError>>()?;
        let Some((at, bytes)) = select::take(&queues, within).await? else { return Ok(None) };
        let of = all().nth(at).unwrap_or(self);
        Ok(Some((at, of.of.one(&bytes)?)))
    }
}

impl<T: Send + 'static, C: Decode<T>> Queue<T, C> {
    /// All elements from the front on, a page of 100 at a time, by index: where others change the queue meanwhile, one may be missed or come
    /// twice. One that can not be decoded is an error, and the stream goes on behind it; behind any other error it is over.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        self.of.stream()
    }
}
