//! Messages that are given to nobody any more.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use redgrid_core::object::ObjectError;

use crate::error::QueueError;
use crate::message::{Message, MessageId};
use crate::queue::ReliableQueue;

/// How many are read at a time.
const PAGE: &str = "100";

/// Messages of a queue that were tried often enough, or were rejected: made by [`ReliableQueue::dead`]. They stay until they are moved back
/// or removed, or their lifetime by the queue's settings is over.
#[derive(Clone)]
pub struct DeadLetters<T, C> {
    queue: ReliableQueue<T, C>,
}

impl<T, C: Clone> DeadLetters<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>) -> Self {
        DeadLetters { queue }
    }

    /// How many there are.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        Ok(self.queue.counts().await?.dead)
    }

    /// The same by who moves them: a replica may know of fewer.
    async fn there(&self) -> Result<u64, ObjectError> {
        let said: Vec<u64> = self.queue.object_ref().read_primary(self.queue.desk()?.keys.counts()).await?;
        Ok(self.queue.counts_of(&said)?.dead)
    }

    /// All of them, in the order in which they were pushed, a hundred a request. What dies or is moved meanwhile may be among them or not;
    /// none comes twice.
    pub fn stream(&self) -> impl Stream<Item = Result<Message<T, C>, ObjectError>> + use<T, C> {
        let begin = (self.queue.clone(), VecDeque::new(), Some(Bytes::new()));
        stream::unfold(begin, |(queue, mut page, mut behind): (_, VecDeque<Message<T, C>>, _)| async move {
            if let (true, Some(last)) = (page.is_empty(), behind.take()) {
                match queue.looked(|request| request.arg("dead").arg(PAGE).arg(last)).await {
                    Ok(found) => page.extend(found),
                    Err(error) => return Some((Err(error), (queue, page, None))),
                }
            }
            let next = page.pop_front()?;
            let behind = Some(next.id().arg());
            Some((Ok(next), (queue, page, behind)))
        })
    }

    /// Makes all of them ready again that are dead now, a hundred a request: they begin anew, with no attempt, in their old places. Tells how
    /// many.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says what is true then; some may be moved.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out; the rest stays dead.
    #[doc(alias = "move")]
    pub async fn redrive(&self) -> Result<u64, QueueError> {
        // Those that die again meanwhile are not moved without end: no more are moved than there were.
        let (mut left, mut moved) = (self.there().await?, 0);
        while left > 0 {
            let some = self.redriven(Bytes::new()).await?;
            moved += some;
            if some == 0 {
                break;
            }
            left = left.saturating_sub(some);
        }
        Ok(moved)
    }

    /// Makes one of them ready again; tells whether it was dead.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "move")]
    pub async fn redrive_one(&self, id: MessageId) -> Result<bool, QueueError> {
        Ok(self.redriven(id.arg()).await? > 0)
    }

    async fn redriven(&self, id: Bytes) -> Result<u64, QueueError> {
        let desk = self.queue.desk()?;
        let change = vec![Bytes::from_static(b"redrive"), id, Bytes::new()];
        desk.change_one(change).await?.counted(&desk.name)
    }

    /// Drops all of them, a hundred a request; tells how many.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says what is true then; some may be dropped.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out; the rest stays.
    pub async fn clear(&self) -> Result<u64, QueueError> {
        let (mut left, mut dropped) = (self.there().await?, 0);
        while left > 0 {
            let desk = self.queue.desk()?;
            let change = vec![Bytes::from_static(b"purge"), left.min(100).to_string().into()];
            let some = desk.change_one(change).await?.counted(&desk.name)?;
            dropped += some;
            if some == 0 {
                break;
            }
            left = left.saturating_sub(some);
        }
        Ok(dropped)
    }
}

impl<T, C: fmt::Debug> fmt::Debug for DeadLetters<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("queue", &self.queue).finish()
    }
}
