//! The priority queue: in with a priority, out by it, and first in first out among those that have the same.

mod find;
mod member;
mod take;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Object, ObjectError, chunks, layouts};
use redgrid_core::{Client, Script};

use crate::elements::{CANCEL, Elements, channel, queue};
use member::{HEAD, NoNumbers, ordered, packed, packed_all};

/// The text of a script, behind where an element goes.
macro_rules! behind {
    ($name:literal) => {
        concat!(include_str!("../scripts/behind.lua"), include_str!(concat!("../scripts/", $name, ".lua")))
    };
}
static PRIORITIZE: Script<1> = Script::new("queue/prioritize", behind!("prioritize"));
static REPRIORITIZE: Script<1> = Script::new("queue/reprioritize", behind!("reprioritize"));

queue! {
    /// Elements of type `T` that are taken by their priority, the smallest first, and in the order in which they came among those that have the
    /// same; shared by all processes that reach the same server. Redisson's `RPriorityQueue`, `RPriorityBlockingQueue`, `RPriorityDeque` and
    /// `RPriorityBlockingDeque` in one, without a lock, and in a layout of its own: theirs is in the order of a Java class.
    ///
    /// A priority is an `i64`, exact over its whole range. Who wants the largest first pushes `!priority`, which turns the order of all numbers
    /// around, and gets it back by the same `!`. Other orders are told by a number: a time in milliseconds, a class of service. The same element may
    /// be in more than once.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(jobs: redgrid_queue::PriorityQueue<String>) -> Result<(), redgrid_queue::ObjectError> {
    /// jobs.push(&"report".to_owned(), 5).await?;
    /// let urgent = jobs.push(&"invoice".to_owned(), 1).await?;
    /// jobs.change_priority(&urgent, 0).await?;
    /// let (priority, job) = jobs.take().await?; // 0, the invoice; waits where there is none
    /// # let _ = (priority, job);
    /// # Ok(()) }
    /// ```
    ///
    /// Cheap to clone; clones are the same queue. The codec `C` is as that of a [`Queue`](crate::Queue), and so is what is promised of those who
    /// wait. A priority queue is there while it has elements.
    #[doc(alias = "RPriorityQueue")]
    #[doc(alias = "RPriorityBlockingQueue")]
    #[doc(alias = "RPriorityDeque")]
    #[doc(alias = "RPriorityBlockingDeque")]
    #[doc(alias = "BinaryHeap")]
    pub struct PriorityQueue: alone
}

/// An element that was pushed with a priority: what [`PriorityQueue::cancel`] and [`PriorityQueue::change_priority`] need. It has a copy of the
/// element as the codec wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prioritized(Bytes);

impl<T, C: Codec> PriorityQueue<T, C> {
    /// How many elements it has.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, ObjectError> {
        self.of.place.read(self.of.place.command("ZCARD")?).await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::len`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::len`].
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, ObjectError> {
        Ok(self.len().await? == 0)
    }

    /// Removes all elements, in one step; tells whether there were any.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn clear(&self) -> Result<bool, ObjectError> {
        self.of.clear().await
    }

    /// Removes an element that was pushed and is not taken yet; tells whether it was still there, with the priority that this tells of.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn cancel(&self, pushed: &Prioritized) -> Result<bool, ObjectError> {
        self.of.place.change(CANCEL.with([self.of.key()?]).arg(pushed.0.clone())).await
    }

    /// Gives an element that is not taken yet another priority, in one step; it is behind those that have it, also where it is the same as before.
    /// Tells what it can be cancelled by from then on; `None` where it is not there with the priority that this tells of: taken, or changed before.
    /// One that is taken for a caller who leaves comes back as it was, also behind such an answer.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn change_priority(
        &self,
        pushed: &Prioritized,
        priority: i64,
    ) -> Result<Option<Prioritized>, ObjectError> {
        let request = REPRIORITIZE.with([self.of.key()?]).arg(pushed.0.clone());
        let request = request.arg(Bytes::copy_from_slice(&ordered(priority)));
        let number: Option<Bytes> = self.of.place.change(request).await?;
        let changed = number.map(|number| packed(priority, &number, &pushed.0[HEAD..])).transpose();
        changed.map(|changed| changed.map(Prioritized)).or_else(|none| self.unnumbered(none))
    }

    /// What the server has answered to a push is none of its answers.
    fn unnumbered<A>(&self, none: NoNumbers) -> Result<A, ObjectError> {
        Err(ObjectError::decode(self.of.name()?, Some("a number".into()), self.of.codec.name(), none))
    }
}

impl<T, C: Encode<T>> PriorityQueue<T, C> {
    /// Adds an element with a priority, behind those that have the same; tells what it can be cancelled by. One request, which wakes those who wait.
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
    pub async fn push(&self, value: &T, priority: i64) -> Result<Prioritized, ObjectError> {
        let mut pushed = self.push_many([(value, priority)]).await?;
        pushed.pop().map_or_else(|| self.unnumbered(NoNumbers::Count { told: 0, asked: 1 }), Ok)
    }

    /// Adds elements, each with its priority, in their order; tells what each can be cancelled by. 500 of them or about 4 MiB go in one step; of
    /// more, what others add may come in between.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::push`]; behind the first part [`ObjectError::Partial`]: as many as it says of the first are added.
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a T, i64)>,
    ) -> Result<Vec<Prioritized>, ObjectError>
    where
        T: 'a,
    {
        let (name, key) = self.of.place.name_and_key()?;
        let encoded = values.into_iter().map(|(value, priority)| Ok((priority, self.of.encoded(value)?)));
        let values: Vec<(i64, Bytes)> = encoded.collect::<Result<_, ObjectError>>()?;
        let mut pushed = Vec::with_capacity(values.len());
        for part in chunks(&values, |(_, value)| value.len()) {
            let request = PRIORITIZE.with([key.clone()]).publish_arg().arg(channel(key));
            let request = part.iter().fold(request, |request, (priority, value)| {
                request.arg(Bytes::copy_from_slice(&ordered(*priority))).arg(value.clone())
            });
            let numbers: Result<Vec<Bytes>, _> = self.of.place.change(request).await;
            let members = numbers.and_then(|numbers| packed_all(part, &numbers).or_else(|none| self.unnumbered(none)));
            let members = members.map_err(|error| error.after(name, pushed.len() as u64))?;
            pushed.extend(members.into_iter().map(Prioritized));
        }
        Ok(pushed)
    }
}
