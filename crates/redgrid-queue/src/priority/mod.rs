//! The priority queue: elements are taken by their priority, and FIFO among equal priorities.

mod find;
mod member;
mod take;

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::object::{Object, ObjectError, chunks, layouts};
use redgrid_core::{Client, Script};

use crate::elements::{CANCEL, Elements, channel, queue_type};
use member::{HEAD, InvalidNumbers, pack, pack_all, priority_bytes};

/// Returns the text of `insert_after.lua`, followed by that of the named script.
macro_rules! with_insert_after {
    ($name:literal) => {
        concat!(include_str!("../scripts/insert_after.lua"), include_str!(concat!("../scripts/", $name, ".lua")))
    };
}
static PRIORITIZE: Script<1> = Script::new("queue/prioritize", with_insert_after!("prioritize"));
static REPRIORITIZE: Script<1> = Script::new("queue/reprioritize", with_insert_after!("reprioritize"));

queue_type! {
    /// Elements of type `T` that are taken by their priority, the smallest first, shared by all
    /// processes that reach the same server.
    ///
    /// Elements with the same priority are taken in the order in which they were added. It replaces
    /// Redisson's `RPriorityQueue`, `RPriorityBlockingQueue`, `RPriorityDeque` and
    /// `RPriorityBlockingDeque`. It needs no lock. Its layout differs from theirs, because a Java
    /// class defines their order.
    ///
    /// A priority is an `i64`, exact over its whole range. To take the largest first, push
    /// `!priority`, which reverses the order of all numbers, and apply `!` to the returned
    /// priority. Other orders can be expressed as a number: a time in milliseconds, a class of
    /// service. An element may be added more than once.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(jobs: redgrid_queue::PriorityQueue<String>) -> Result<(), redgrid_queue::ObjectError> {
    /// jobs.push("report", 5).await?;
    /// let urgent = jobs.push("invoice", 1).await?;
    /// jobs.change_priority(&urgent, 0).await?;
    /// let (priority, job) = jobs.take().await?; // 0, the invoice; waits if there is none
    /// # let _ = (priority, job);
    /// # Ok(()) }
    /// ```
    ///
    /// It is cheap to clone; clones are handles of the same queue. The codec `C` is part of the
    /// type, as for a [`Queue`](crate::Queue), and waiters have the same guarantees as there. A
    /// priority queue exists while it has elements.
    #[doc(alias = "RPriorityQueue")]
    #[doc(alias = "RPriorityBlockingQueue")]
    #[doc(alias = "RPriorityDeque")]
    #[doc(alias = "RPriorityBlockingDeque")]
    #[doc(alias = "BinaryHeap")]
    pub struct PriorityQueue: alone
}

/// Identifies an element that was added with a priority, for [`PriorityQueue::cancel`] and
/// [`PriorityQueue::change_priority`]. It contains a copy of the encoded element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prioritized(Bytes);

impl<T, C: Codec> PriorityQueue<T, C> {
    /// Returns the number of elements.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.elements.place.read(self.elements.place.command("ZCARD")?).await
    }

    /// Returns whether there are no elements.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all elements in one step, and returns whether there were any.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.elements.clear().await
    }

    /// Removes an element that was not taken yet. Returns whether it still existed with the
    /// priority that `pushed` contains.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn cancel(&self, pushed: &Prioritized) -> Result<bool, ObjectError> {
        self.elements.place.change(CANCEL.with([self.elements.key()?]).arg(pushed.0.clone())).await
    }

    /// Gives another priority to an element that was not taken yet, in one step.
    ///
    /// The element is placed after all elements with this priority, even if it already had this
    /// priority. Returns the value that identifies the element after the change. `None` if the
    /// element did not exist with the priority that `pushed` contains: it was taken, or its
    /// priority was changed. An element that was taken for a call that is dropped is put back with
    /// its old priority, even after `None` was returned.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn change_priority(
        &self,
        pushed: &Prioritized,
        priority: i64,
    ) -> Result<Option<Prioritized>, ObjectError> {
        let request = REPRIORITIZE.with([self.elements.key()?]).arg(pushed.0.clone());
        let request = request.arg(Bytes::copy_from_slice(&priority_bytes(priority)));
        let number: Option<Bytes> = self.elements.place.change(request).await?;
        let Some(number) = number else { return Ok(None) };
        let changed = pack(priority, &number, &pushed.0[HEAD..]).map_err(|error| self.invalid_reply(error))?;
        Ok(Some(Prioritized(changed)))
    }

    /// Returns the error for an invalid reply to a push.
    fn invalid_reply(&self, error: InvalidNumbers) -> ObjectError {
        match self.elements.name() {
            Ok(name) => ObjectError::decode(name, Some("a number".into()), self.elements.codec.name(), error),
            Err(invalid) => invalid,
        }
    }
}

impl<T, C: Codec> PriorityQueue<T, C> {
    /// Adds an element after those that have the same priority. Returns a value that identifies it
    /// for [`PriorityQueue::cancel`]. The call sends one request, which also wakes waiters.
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
    pub async fn push<Q: ?Sized>(&self, value: &Q, priority: i64) -> Result<Prioritized, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let mut pushed = self.push_many([(value, priority)]).await?;
        pushed.pop().ok_or_else(|| self.invalid_reply(InvalidNumbers::Count { returned: 0, pushed: 1 }))
    }

    /// Adds elements, each with its priority, in their order. Returns for each a value that
    /// identifies it for [`PriorityQueue::cancel`].
    ///
    /// Up to 500 of them or about 4 MiB are added in one step. Between two steps, other processes
    /// may add elements.
    ///
    /// # Errors
    ///
    /// As for [`PriorityQueue::push`]; after the first step [`ObjectError::Partial`], with the
    /// number of elements that were added.
    ///
    /// # Cancel safety
    ///
    /// As for [`PriorityQueue::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = (&'a Q, i64)>,
    ) -> Result<Vec<Prioritized>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, key) = self.elements.place.name_and_key()?;
        let encoded = values.into_iter().map(|(value, priority)| Ok((priority, self.elements.encode(value)?)));
        let values: Vec<(i64, Bytes)> = encoded.collect::<Result<_, ObjectError>>()?;
        let mut pushed = Vec::with_capacity(values.len());
        for part in chunks(&values, |(_, value)| value.len()) {
            let request = PRIORITIZE.with([key.clone()]).publish_arg().arg(channel(key));
            let request = part.iter().fold(request, |request, (priority, value)| {
                request.arg(Bytes::copy_from_slice(&priority_bytes(*priority))).arg(value.clone())
            });
            let numbers: Result<Vec<Bytes>, _> = self.elements.place.change(request).await;
            let members =
                numbers.and_then(|numbers| pack_all(part, &numbers).map_err(|error| self.invalid_reply(error)));
            let members = members.map_err(|error| error.after(name, pushed.len() as u64))?;
            pushed.extend(members.into_iter().map(Prioritized));
        }
        Ok(pushed)
    }
}
