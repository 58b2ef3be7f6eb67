//! Elements out of the queue, and those who wait for them.

use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::object::ObjectError;
use redgrid_core::{IdempotentRequest, IdempotentScript, Pairs, Script};

use super::PriorityQueue;
use crate::elements::{POPPED_AT_ONCE, channel};
use crate::ends::{End, TAKE};
use crate::select;
use crate::stock::{MAX_TAKEN_BYTES, TakeSource};
use crate::waiters::TakeWaiters;

static MOVE_OUT: Script<2> = Script::new("queue/move_out", include_str!("../scripts/move_out.lua"));
static PUT_BACK: IdempotentScript<2> =
    IdempotentScript::new("queue/put_back_in_place", include_str!("../scripts/put_back_in_place.lua"));

/// An end of the order, as a source.
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
        let request = TAKE.with([self.key.clone()]).arg(popping(self.end)).arg("ZADD");
        request.arg(limit.to_string()).int(MAX_TAKEN_BYTES)
    }

    fn put_back(&self, unique: Bytes, elements: &[Bytes]) -> IdempotentRequest {
        let request = PUT_BACK.with([unique, self.key.clone()]).publish_here().arg(channel(&self.key));
        elements.iter().cloned().fold(request, IdempotentRequest::arg)
    }
}

fn popping(end: End) -> &'static str {
    end.of("ZPOPMIN", "ZPOPMAX")
}

impl<T, C: Decode<T>> PriorityQueue<T, C> {
    /// Removes the first element; tells it with its priority, `None` where there is none. One command, sent once: where its answer is lost, or nobody
    /// waits for it any more, the element is lost. [`PriorityQueue::take_within`] of zero loses none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: the element is lost.
    #[doc(alias = "poll")]
    #[doc(alias = "pollFirst")]
    #[doc(alias = "remove")]
    #[doc(alias = "removeFirst")]
    pub async fn pop(&self) -> Result<Option<(i64, T)>, ObjectError> {
        Ok(self.popped(End::Front, 1).await?.pop())
    }

    /// The same of the last element: of those with the largest priority the one that came last.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::pop`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::pop`].
    #[doc(alias = "pollLast")]
    #[doc(alias = "removeLast")]
    pub async fn pop_last(&self) -> Result<Option<(i64, T)>, ObjectError> {
        Ok(self.popped(End::Back, 1).await?.pop())
    }

    /// Removes up to `most` elements from the first on, in one step where they are no more than 10,000; tells them in their order.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::pop`]; behind the first 10,000 [`ObjectError::Partial`]. One that can not be decoded is an error of all, and all are
    /// removed.
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::pop`].
    #[doc(alias = "poll")]
    #[doc(alias = "pollFirst")]
    #[doc(alias = "drainTo")]
    pub async fn pop_many(&self, most: u64) -> Result<Vec<(i64, T)>, ObjectError> {
        self.popped(End::Front, most).await
    }

    /// The same from the last on, in that order.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::pop_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::pop`].
    #[doc(alias = "pollLast")]
    pub async fn pop_last_many(&self, most: u64) -> Result<Vec<(i64, T)>, ObjectError> {
        self.popped(End::Back, most).await
    }

    async fn popped(&self, end: End, most: u64) -> Result<Vec<(i64, T)>, ObjectError> {
        let name = self.of.name()?;
        self.of.counted("most", most)?;
        let mut all = Vec::new();
        loop {
            let left = (most - all.len() as u64).min(POPPED_AT_ONCE);
            if left == 0 {
                return Ok(all);
            }
            let request = self.of.place.command(popping(end))?.int(left.cast_signed());
            let Pairs(found): Pairs<Bytes, f64> =
                self.of.place.change(request).await.map_err(|error| error.after(name, all.len() as u64))?;
            for (member, _) in &found {
                all.push(self.one(member)?);
            }
            if (found.len() as u64) < left {
                return Ok(all);
            }
        }
    }

    /// The first element with its priority, which stays; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "element")]
    #[doc(alias = "peekFirst")]
    #[doc(alias = "getFirst")]
    pub async fn peek(&self) -> Result<Option<(i64, T)>, ObjectError> {
        self.seen(End::Front).await
    }

    /// The same of the last.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::peek`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::peek`].
    #[doc(alias = "peekLast")]
    #[doc(alias = "getLast")]
    pub async fn peek_last(&self) -> Result<Option<(i64, T)>, ObjectError> {
        self.seen(End::Back).await
    }

    async fn seen(&self, end: End) -> Result<Option<(i64, T)>, ObjectError> {
        let at = end.of(0, -1);
        let found: Vec<Bytes> = self.of.place.read(self.of.place.command("ZRANGE")?.int(at).int(at)).await?;
        found.first().map(|member| self.one(member)).transpose()
    }

    /// Moves the element at an end to an end of a [`Queue`](crate::Queue) or a [`Deque`](crate::Deque), where it has no priority, in one step; tells
    /// it with the one that it had, `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::pop`]; [`ObjectError::InvalidArgument`] of a queue in another slot of a cluster, [`ObjectError::Refused`] of a name
    /// that is no list. One that can not be decoded is moved all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "move")]
    #[doc(alias = "pollLastAndOfferFirstTo")]
    pub async fn move_to(&self, from: End, to: impl AsRef<str>, to_end: End) -> Result<Option<(i64, T)>, ObjectError> {
        let (key, to) = (self.of.key()?, self.of.place.beside("to", to)?);
        let request = MOVE_OUT.with([key, to.clone()]).int(from.of(0, -1)).arg(to_end.of("LPUSH", "RPUSH"));
        let moved: Option<Bytes> = self.of.place.change(request.publish_here().arg(channel(&to))).await?;
        moved.map(|member| self.one(&member)).transpose()
    }

    /// Takes the first element, with its priority, and waits for one where there is none: as [`Queue::take`](crate::Queue::take). Who waits gets
    /// what is first when the server is asked for it; or what was taken for a caller who has left, in the order in which that was taken: it is not
    /// compared with what has come since, nor with each other.
    ///
    /// # Errors
    ///
    /// As [`Queue::take`](crate::Queue::take).
    ///
    /// # Cancel safety
    ///
    /// As [`Queue::take`](crate::Queue::take): what is put back is where it was, by its priority and among those that have the same.
    #[doc(alias = "takeFirst")]
    #[doc(alias = "BZPOPMIN")]
    pub async fn take(&self) -> Result<(i64, T), ObjectError> {
        self.taken(End::Front).await
    }

    /// The same, for so long at most: `None` where none came. It is asked for once at least; zero asks once.
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::take`].
    #[doc(alias = "poll")]
    #[doc(alias = "pollFirst")]
    pub async fn take_within(&self, within: Duration) -> Result<Option<(i64, T)>, ObjectError> {
        self.taken_within(End::Front, Some(within)).await
    }

    /// Takes the last element, as [`PriorityQueue::take`].
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::take`].
    #[doc(alias = "takeLast")]
    #[doc(alias = "BZPOPMAX")]
    pub async fn take_last(&self) -> Result<(i64, T), ObjectError> {
        self.taken(End::Back).await
    }

    /// The same, for so long at most, as [`PriorityQueue::take_within`].
    ///
    /// # Errors
    ///
    /// As [`PriorityQueue::take`].
    ///
    /// # Cancel safety
    ///
    /// As [`PriorityQueue::take`].
    #[doc(alias = "pollLast")]
    pub async fn take_last_within(&self, within: Duration) -> Result<Option<(i64, T)>, ObjectError> {
        self.taken_within(End::Back, Some(within)).await
    }

    async fn taken(&self, end: End) -> Result<(i64, T), ObjectError> {
        loop {
            if let Some(one) = self.taken_within(end, None).await? {
                return Ok(one);
            }
        }
    }

    async fn taken_within(&self, end: End, within: Option<Duration>) -> Result<Option<(i64, T)>, ObjectError> {
        let (name, key) = self.of.place.named()?;
        let source = || PriorityEnd { key: key.clone(), end };
        let queue = TakeWaiters::of(self.of.place.client(), &end.source_id(key), source);
        let taken = select::take(&[(name.clone(), queue)], within).await?;
        taken.map(|(_, member)| self.one(&member)).transpose()
    }
}
