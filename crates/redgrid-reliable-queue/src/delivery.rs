//! A message in somebody's hands.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::Failure;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;

use crate::ask::Given;
use crate::changes::Told;
use crate::desk::Desk;
use crate::error::QueueError;
use crate::message::{Message, MessageId, MessageState, Receipt};
use crate::queue::ReliableQueue;
use crate::settings::{delay_of, reason_of, visibility_of};

/// Not settled; an acknowledgement has left and was not answered; acknowledged; given up otherwise.
const OPEN: u8 = 0;
const UNANSWERED: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const GIVEN_UP: u8 = 3;

/// A message that was given to this process: nobody else is given it until its visibility is over.
///
/// It is settled by [`ack`](Delivery::ack), [`nack`](Delivery::nack) or [`reject`](Delivery::reject). Dropped before that, it comes back when
/// its visibility is over, so that a task that panics and a process that dies lose nothing; with
/// [`back_on_drop`](crate::Receive::back_on_drop) at once.
#[must_use = "a message that is not acknowledged is delivered again"]
pub struct Delivery<T, C> {
    message: Message<T, C>,
    receipt: Receipt,
    desk: Arc<Desk>,
    until: Mutex<Instant>,
    state: AtomicU8,
    back_on_drop: bool,
}

impl<T, C> Delivery<T, C> {
    pub(crate) fn new(queue: &ReliableQueue<T, C>, desk: &Arc<Desk>, given: Given, back_on_drop: bool) -> Self
    where
        C: Clone,
    {
        let left = given.until.since(desk.client.clock().now());
        // Shown only: what decides is the server's time, and here the client's clock.
        let until = SystemTime::now().checked_add(left).unwrap_or(UNIX_EPOCH);
        let message = Message {
            id: given.receipt.id,
            attempts: given.attempt,
            priority: given.priority,
            pushed_at: given.pushed_at,
            state: MessageState::InFlight { until },
            object_ref: queue.object_ref().clone(),
            framed: given.framed,
            codec: queue.codec().clone(),
            values: PhantomData,
        };
        let (until, state) = (Mutex::new(given.until), AtomicU8::new(OPEN));
        Delivery { message, receipt: given.receipt, desk: Arc::clone(desk), until, state, back_on_drop }
    }

    /// The message's number.
    pub fn id(&self) -> MessageId {
        self.message.id
    }

    /// How often it was given to somebody, this time included: 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.message.attempts
    }

    /// 0 to 9.
    pub fn priority(&self) -> u8 {
        self.message.priority
    }

    /// When it was pushed, by the server's time.
    pub fn pushed_at(&self) -> SystemTime {
        self.message.pushed_at
    }

    /// Its headers.
    ///
    /// # Errors
    ///
    /// As [`Message::headers`].
    pub fn headers(&self) -> Result<Vec<(String, String)>, ObjectError> {
        self.message.headers()
    }

    /// Its value, decoded by each call. One that can not be is best [rejected](Delivery::reject).
    ///
    /// # Errors
    ///
    /// As [`Message::value`].
    pub fn value(&self) -> Result<T, ObjectError>
    where
        C: Decode<T>,
    {
        self.message.value()
    }

    /// What settles it from another process.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// How long nobody else is given it, for certain: counted from before it was asked for. Zero when that is over, and from when it is given
    /// back or rejected, whatever is told of that.
    pub fn remaining(&self) -> Duration {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.since(self.desk.client.clock().now())
    }

    /// The work is done: the message is over. It counts as long as nobody else was given the message, even after its visibility; a
    /// second call does nothing.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] where somebody else was given it, or it is settled otherwise: the work
    /// may be done twice. After [`Failure::OutcomeUnknown`], or a call that was dropped, it may be
    /// called again: a message that is gone then counts as acknowledged.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; dropped earlier, the message comes back.
    #[doc(alias = "acknowledge")]
    pub async fn ack(&self) -> Result<(), QueueError> {
        if self.state.load(Ordering::Acquire) == ACKNOWLEDGED {
            return Ok(());
        }
        // Before it leaves: a dropped call may have been carried out.
        let before = self.state.swap(UNANSWERED, Ordering::AcqRel);
        let told = self.desk.settle("ack", &self.receipt, None).await;
        match told {
            Ok(Told::Done) => self.acknowledged(),
            Ok(Told::Gone) if before == UNANSWERED => self.acknowledged(),
            Ok(other) => {
                self.state.store(before, Ordering::Release);
                self.until_at_most(Instant::MIN);
                other.settled(&self.desk.name, self.receipt.id)
            }
            Err(error) => {
                if !matches!(error, QueueError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. }))) {
                    self.state.store(before, Ordering::Release);
                }
                Err(error)
            }
        }
    }

    /// The work is not done: the message is ready again after `delay`, from zero to 3650 days, in its old place; or dead, where it was tried
    /// as often as the queue allows.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] where it is not this delivery's any more; [`Failure::InvalidArgument`]
    /// for a delay that can not be.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; dropped earlier, the message comes back later.
    #[doc(alias = "negativeAcknowledge")]
    pub async fn nack(&self, delay: Duration) -> Result<(), QueueError> {
        let delay = delay_of(&self.message.object_ref, "delay", delay)?;
        self.until_at_most(Instant::MIN);
        let told = self.desk.settle("nack", &self.receipt, Some(delay)).await?;
        self.given_up(told)
    }

    /// The work can not be done: the message is dead at once. `reason`, at most 1,024 bytes, is told with it.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] where it is not this delivery's any more; [`Failure::InvalidArgument`]
    /// for a reason that is too long.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; dropped earlier, the message comes back.
    #[doc(alias = "negativeAcknowledge")]
    pub async fn reject(&self, reason: impl AsRef<str>) -> Result<(), QueueError> {
        let reason = reason_of(&self.message.object_ref, reason.as_ref())?;
        self.until_at_most(Instant::MIN);
        let told = self.desk.settle("reject", &self.receipt, Some(reason)).await?;
        self.given_up(told)
    }

    /// Moves the end of its visibility to `visibility` from now, 1 ms to 3650 days.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stale`] where that was found to be over by who receives, or the message is not
    /// this delivery's any more; [`Failure::InvalidArgument`] for a visibility that can not be.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it; [`remaining`](Delivery::remaining) is then too low.
    pub async fn extend(&self, visibility: Duration) -> Result<(), QueueError> {
        let asked = visibility_of(&self.message.object_ref, visibility)?;
        let until = self.desk.client.clock().now() + visibility;
        self.until_at_most(until);
        let told = self.desk.settle("extend", &self.receipt, Some(asked)).await?;
        if told != Told::Done {
            self.until_at_most(Instant::MIN);
        }
        told.settled(&self.desk.name, self.receipt.id)?;
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        Ok(())
    }

    /// Before what may move the end to the front leaves: it may be carried out although nobody hears of it.
    fn until_at_most(&self, most: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = most.min(*until);
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is what an acknowledgement ends with")]
    fn acknowledged(&self) -> Result<(), QueueError> {
        self.state.store(ACKNOWLEDGED, Ordering::Release);
        Ok(())
    }

    fn given_up(&self, told: Told) -> Result<(), QueueError> {
        told.settled(&self.desk.name, self.receipt.id)?;
        self.state.store(GIVEN_UP, Ordering::Release);
        Ok(())
    }
}

impl<T, C> Drop for Delivery<T, C> {
    fn drop(&mut self) {
        // Where an acknowledgement was carried out that was not answered, there is nothing to go back.
        if self.back_on_drop && *self.state.get_mut() <= UNANSWERED {
            self.desk.later("nack", vec![self.receipt.clone()], Some(Bytes::from_static(b"0")));
        }
    }
}

impl<T, C> fmt::Debug for Delivery<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("message", &self.message).finish_non_exhaustive()
    }
}
