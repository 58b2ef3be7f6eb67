//! Removing elements at either end of the order, and waiting for them.

use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::object::ObjectError;
use redgrid_core::{IdempotentRequest, IdempotentScript, Pairs, Script};

use super::PriorityQueue;
use crate::elements::{MAX_POPPED, channel};
use crate::ends::{End, TAKE};
use crate::select;
use crate::stock::{MAX_TAKEN_BYTES, TakeSource};
use crate::waiters::TakeWaiters;

static MOVE_OUT: Script<2> = Script::new("queue/move_out", include_str!("../scripts/move_out.lua"));
static PUT_BACK: IdempotentScript<2> =
    IdempotentScript::new("queue/put_back_in_place", include_str!("../scripts/put_back_in_place.lua"));

/// An end of the order, from which waiters take.
struct PriorityEnd {
    key: Bytes,
    end: End,
}

impl TakeSource for PriorityEnd {
    fn key(&self) -> &Bytes {
        &self.key
    }

    fn channels(&self) -> Vec<Bytes> {
        vec![channel(&self.key)]
    }

    fn take(&self, limit: usize) -> IdempotentRequest {
        let request = TAKE.with([self.key.clone()]).arg(pop_command(self.end)).arg("ZADD");
        request.arg(limit.to_string()).int(MAX_TAKEN_BYTES)
    }

    fn put_back(&self, unique: Bytes, elements: &[Bytes]) -> IdempotentRequest {
        let request = PUT_BACK.with([unique, self.key.clone()]).publish_arg().arg(channel(&self.key));
        elements.iter().cloned().fold(request, IdempotentRequest::arg)
    }
}

fn pop_command(end: End) -> &'static str {
    end.of("ZPOPMIN", "ZPOPMAX")
}

impl<T, C: Decode<T>> PriorityQueue<T, C> {
    /// Removes the first element, and returns it with its priority; `None` if there is none.
    ///
    /// The call sends one command, once. The element is lost if the reply is lost or the future is
    /// dropped. [`PriorityQueue::take_within`] with zero does not lose it.
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
    #[doc(alias = "pollFirst")]
    #[doc(alias = "remove")]
    #[doc(alias = "removeFirst")]
    pub async fn pop(&self) -> Result<Option<(i64, T)>, ObjectError> {
        Ok(self.pop_from(End::Front, 1).await?.pop())
    }

    /// Removes the last element, as [`PriorityQueue::pop`]: among the elements with the largest
    /// priority, the one that was added last.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::pop`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "removeLast")]
    pub async fn pop_last(&self) -> Result<Option<(i64, T)>, ObjectError> {
        Ok(self.pop_from(End::Back, 1).await?.pop())
    }

    /// Removes and returns up to `most` elements from the first on, in their order. Up to 10,000
    /// are removed in one step.
    ///
    /// # Errors
    ///
    /// As for [`PriorityQueue::pop`]; after the first 10,000 [`ObjectError::Partial`]. If one
    /// cannot be decoded, the call fails, and all are removed.
    ///
    /// # Cancel safety
    ///
    /// As for [`PriorityQueue::pop`].
    #[doc(alias = "poll")]
    #[doc(alias = "pollFirst")]
    #[doc(alias = "drainTo")]
    pub async fn pop_many(&self, most: u64) -> Result<Vec<(i64, T)>, ObjectError> {
        self.pop_from(End::Front, most).await
    }

    /// Removes and returns up to `most` elements as [`PriorityQueue::pop_many`], from the last to
    /// the first.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::pop_many`].
    #[doc(alias = "pollLast")]
    pub async fn pop_last_many(&self, most: u64) -> Result<Vec<(i64, T)>, ObjectError> {
        self.pop_from(End::Back, most).await
    }

    async fn pop_from(&self, end: End, most: u64) -> Result<Vec<(i64, T)>, ObjectError> {
        let (name, place) = (self.elements.name()?, &self.elements.place);
        self.elements.count("most", most)?;
        let mut all = Vec::new();
        loop {
            let limit = (most - all.len() as u64).min(MAX_POPPED);
            if limit == 0 {
                return Ok(all);
            }
            let request = place.command(pop_command(end))?.int(limit.cast_signed());
            let Pairs(popped): Pairs<Bytes, f64> =
                place.change(request).await.map_err(|error| error.after(name, all.len() as u64))?;
            for (member, _) in &popped {
                all.push(self.decode(member)?);
            }
            if (popped.len() as u64) < limit {
                return Ok(all);
            }
        }
    }

    /// Returns the first element with its priority; `None` if there is none. The element stays.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "element")]
    #[doc(alias = "peekFirst")]
    #[doc(alias = "getFirst")]
    pub async fn peek(&self) -> Result<Option<(i64, T)>, ObjectError> {
        self.peek_at(End::Front).await
    }

    /// Returns the last element with its priority; `None` if there is none. The element stays.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::peek`].
    #[doc(alias = "peekLast")]
    #[doc(alias = "getLast")]
    pub async fn peek_last(&self) -> Result<Option<(i64, T)>, ObjectError> {
        self.peek_at(End::Back).await
    }

    async fn peek_at(&self, end: End) -> Result<Option<(i64, T)>, ObjectError> {
        let (place, index) = (&self.elements.place, end.of(0, -1));
        let members: Vec<Bytes> = place.read(place.command("ZRANGE")?.int(index).int(index)).await?;
        members.first().map(|member| self.decode(member)).transpose()
    }

    /// Moves the element at one end of this queue to an end of a [`Queue`](crate::Queue) or a
    /// [`Deque`](crate::Deque), in one step.
    ///
    /// Returns the element with the priority that it had; `None` if there is none. The element has
    /// no priority in the other queue.
    ///
    /// # Errors
    ///
    /// As for [`PriorityQueue::pop`]; [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// if the other queue is in another slot of a cluster;
    /// [`Failure::Refused`](crate::Failure::Refused) if the destination is not a list. An element
    /// that cannot be decoded is moved nevertheless.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "move")]
    #[doc(alias = "pollLastAndOfferFirstTo")]
    pub async fn move_to(&self, from: End, to: impl AsRef<str>, to_end: End) -> Result<Option<(i64, T)>, ObjectError> {
        let (key, to) = (self.elements.key()?, self.elements.place.same_slot_key("to", to)?);
        let request = MOVE_OUT.with([key, to.clone()]).int(from.of(0, -1)).arg(to_end.of("LPUSH", "RPUSH"));
        let moved: Option<Bytes> = self.elements.place.change(request.publish_arg().arg(channel(&to))).await?;
        moved.map(|member| self.decode(&member)).transpose()
    }

    /// Takes the first element, with its priority, and waits for one if there is none, as
    /// [`Queue::take`](crate::Queue::take).
    ///
    /// A waiter gets the element that is first when the server is polled. It may also get an
    /// element that was taken for a dropped call. Such elements are offered in the order in which
    /// they were taken. They are not compared with each other, nor with elements that were added
    /// since.
    ///
    /// # Errors
    ///
    /// As for [`Queue::take`](crate::Queue::take).
    ///
    /// # Cancel safety
    ///
    /// As for [`Queue::take`](crate::Queue::take). Elements are put back to their previous
    /// position, also among elements of the same priority.
    #[doc(alias = "takeFirst")]
    #[doc(alias = "BZPOPMIN")]
    pub async fn take(&self) -> Result<(i64, T), ObjectError> {
        self.take_from(End::Front).await
    }

    /// Takes the first element, with its priority, and waits up to `within` for one; `None` if
    /// there was none in time.
    ///
    /// The server is polled at least once. If `within` is zero, it is polled exactly once.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::take`].
    #[doc(alias = "poll")]
    #[doc(alias = "pollFirst")]
    pub async fn take_within(&self, within: Duration) -> Result<Option<(i64, T)>, ObjectError> {
        self.take_from_within(End::Front, Some(within)).await
    }

    /// Takes the last element, as [`PriorityQueue::take`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::take`].
    #[doc(alias = "takeLast")]
    #[doc(alias = "BZPOPMAX")]
    pub async fn take_last(&self) -> Result<(i64, T), ObjectError> {
        self.take_from(End::Back).await
    }

    /// Takes the last element, and waits up to `within` for one, as [`PriorityQueue::take_within`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PriorityQueue::take`].
    #[doc(alias = "pollLast")]
    pub async fn take_last_within(&self, within: Duration) -> Result<Option<(i64, T)>, ObjectError> {
        self.take_from_within(End::Back, Some(within)).await
    }

    async fn take_from(&self, end: End) -> Result<(i64, T), ObjectError> {
        loop {
            if let Some(taken) = self.take_from_within(end, None).await? {
                return Ok(taken);
            }
        }
    }

    async fn take_from_within(&self, end: End, timeout: Option<Duration>) -> Result<Option<(i64, T)>, ObjectError> {
        let (name, key) = self.elements.place.name_and_key()?;
        let source = || PriorityEnd { key: key.clone(), end };
        let queue = TakeWaiters::of(self.elements.place.client(), &end.source_id(key), source);
        let taken = select::take(&[(name.clone(), queue)], timeout).await?;
        taken.map(|(_, member)| self.decode(&member)).transpose()
    }
}
