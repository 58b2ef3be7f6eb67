//! Dead letters: messages that are not delivered any more.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use redgrid_core::Name;
use redgrid_core::object::ObjectError;
use redgrid_work::MessageId;

use crate::error::{QueueError, counted};
use crate::message::Message;
use crate::queue::ReliableQueue;

/// Messages per request.
const PAGE: &str = "100";

/// The dead letters of a queue: messages that reached the maximum number of attempts, or were
/// rejected. Created by [`ReliableQueue::dead`]. They stay until they are redriven or removed, or
/// until the `dead_lifetime` of the queue's settings ends.
#[derive(Clone)]
pub struct DeadLetters<T, C> {
    queue: ReliableQueue<T, C>,
}

impl<T, C: Clone> DeadLetters<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>) -> Self {
        DeadLetters { queue }
    }

    /// Returns the number of dead letters.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn count(&self) -> Result<u64, ObjectError> {
        Ok(self.queue.counts().await?.dead)
    }

    /// Returns the number at the primary. A change needs this number; a replica may lag.
    async fn count_at_primary(&self) -> Result<u64, ObjectError> {
        let reply: Vec<u64> = self.queue.object_ref().read_primary(self.queue.queue_client()?.keys().counts()).await?;
        Ok(self.queue.parse_counts(&reply)?.dead)
    }

    /// Streams all dead letters in the order of their pushes, a hundred per request. Messages that
    /// become dead letters or are moved meanwhile may be missing; none is repeated.
    pub fn stream(&self) -> impl Stream<Item = Result<Message<T, C>, ObjectError>> + use<T, C> {
        let begin = (self.queue.clone(), VecDeque::new(), Some(Bytes::new()));
        stream::unfold(begin, |(queue, mut page, mut behind): (_, VecDeque<Message<T, C>>, _)| async move {
            if let (true, Some(last)) = (page.is_empty(), behind.take()) {
                match queue.browse(|request| request.arg("dead").arg(PAGE).arg(last)).await {
                    Ok(found) => page.extend(found),
                    Err(error) => return Some((Err(error), (queue, page, None))),
                }
            }
            let next = page.pop_front()?;
            let behind = Some(next.id().arg());
            Some((Ok(next), (queue, page, behind)))
        })
    }

    /// Makes all current dead letters ready again, a hundred per request, and returns their number.
    /// Their attempts are reset to zero, and they keep their old positions.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says whether the request was executed. If some dead letters were already
    /// moved, it is [`ObjectError::Partial`] with their number.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the batch that was sent is executed; the other dead letters stay.
    #[doc(alias = "move")]
    pub async fn redrive(&self) -> Result<u64, QueueError> {
        self.change_all(|_| redrive(Bytes::new())).await
    }

    /// Makes one dead letter ready again. Returns whether it was a dead letter.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says whether the request was executed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    #[doc(alias = "move")]
    pub async fn redrive_one(&self, id: MessageId) -> Result<bool, QueueError> {
        Ok(self.change(redrive(id.arg())).await? > 0)
    }

    /// Removes one message if it is a dead letter. Returns whether it was one.
    ///
    /// A message that was redriven meanwhile stays.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says whether the request was executed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    pub async fn remove_one(&self, id: MessageId) -> Result<bool, QueueError> {
        Ok(self.change(vec![Bytes::from_static(b"discard"), id.arg()]).await? > 0)
    }

    /// Drops all dead letters, a hundred per request, and returns their number.
    ///
    /// # Errors
    ///
    /// [`QueueError`] says whether the request was executed. If some dead letters were already
    /// dropped, it is [`ObjectError::Partial`] with their number.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the batch that was sent is executed; the other dead letters stay.
    pub async fn clear(&self) -> Result<u64, QueueError> {
        self.change_all(|left| vec![Bytes::from_static(b"purge"), left.to_string().into()]).await
    }

    /// Changes all current dead letters, batch by batch, and returns their number.
    ///
    /// `batch` returns the change for the next batch; its argument is the number of dead letters
    /// that are left. The server changes at most a hundred of them.
    async fn change_all(&self, batch: fn(u64) -> Vec<Bytes>) -> Result<u64, QueueError> {
        let name = &self.queue.queue_client()?.name;
        // A message may become a dead letter again meanwhile. The total is bounded so that the loop
        // ends.
        let mut left = self.count_at_primary().await?;
        let mut changed = 0;
        while left > 0 {
            let some = self.change(batch(left)).await.map_err(|error| after(error, name, changed))?;
            changed += some;
            if some == 0 {
                break;
            }
            left = left.saturating_sub(some);
        }
        Ok(changed)
    }

    /// Executes one change, and returns the number of dead letters that it changed.
    async fn change(&self, change: Vec<Bytes>) -> Result<u64, QueueError> {
        let queue_client = self.queue.queue_client()?;
        counted(&queue_client.change_one(change).await?, &queue_client.name)
    }
}

/// Returns the change that makes one dead letter ready again, or the next hundred if `id` is empty.
fn redrive(id: Bytes) -> Vec<Bytes> {
    vec![Bytes::from_static(b"redrive"), id, Bytes::new()]
}

/// Adds the number of dead letters that earlier batches have changed to the error of a batch.
fn after(error: QueueError, name: &Name, done: u64) -> QueueError {
    match error {
        QueueError::Object(error) => error.after(name, done).into(),
        other => other,
    }
}

impl<T, C: fmt::Debug> fmt::Debug for DeadLetters<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("queue", &self.queue).finish()
    }
}
