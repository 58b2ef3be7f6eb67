//! The queue of waiters to be notified, shared by [`Notify`](crate::Notify) and
//! [`Condition`](crate::Condition).

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::{Failure, IdempotentScript, Participant, Request, Script};

use crate::barrier::shut_down_error;
use crate::error::WaitError;
use crate::handle::{PollOutcome, SyncHandle, WaitOptions, exactly_once_script, script};

static WAIT: Script<3> = Script::new("notify/wait", script!("notify_queue", "notify_wait"));
static LEAVE: Script<3> = Script::new("notify/leave", script!("notify_queue", "notify_leave"));
static NOTIFY_ONE: IdempotentScript<3> =
    IdempotentScript::new("notify/one", exactly_once_script!("notify_queue", "notify_one"));
static NOTIFY_ALL: IdempotentScript<3> =
    IdempotentScript::new("notify/all", exactly_once_script!("notify_queue", "notify_all"));

/// Whether a notification without a waiter is stored as a permit for the next waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorePermit {
    Yes,
    No,
}

impl StorePermit {
    fn arg(self) -> &'static str {
        if self == StorePermit::Yes { "1" } else { "0" }
    }
}

fn keys(handle: &SyncHandle) -> [Bytes; 3] {
    [handle.key.clone(), handle.companion_key("line"), handle.companion_key("notified")]
}

/// A waiter in the queue.
///
/// If it is dropped, it leaves the queue in the background, and its notification goes to the next
/// waiter.
#[derive(Debug)]
pub(crate) struct Waiter {
    handle: SyncHandle,
    store_permit: StorePermit,
    participant: Participant,
}

impl Waiter {
    /// Creates a waiter. The first poll puts it into the queue.
    pub(crate) fn new(handle: &SyncHandle, store_permit: StorePermit) -> Waiter {
        let waiter =
            Waiter { participant: handle.client.participant(&handle.key), handle: handle.clone(), store_permit };
        waiter.participant.arm(waiter.leave_request(false));
        waiter
    }

    fn leave_request(&self, consumed: bool) -> Request {
        let request =
            LEAVE.with(keys(&self.handle)).arg(self.participant.id()).arg(self.participant.generation().to_string());
        let request = request.int(consumed.into()).publish_arg().arg(self.handle.channel.clone());
        request.arg(self.store_permit.arg()).idempotent()
    }

    fn poll_request(&self, consume: bool, was_queued: bool) -> Request {
        let request = WAIT
            .with(keys(&self.handle))
            .deadline_arg()
            .arg(self.participant.id())
            .arg(self.participant.generation().to_string());
        let request =
            request.int(self.handle.lease()).int(consume.into()).publish_arg().arg(self.handle.channel.clone());
        request.arg(self.store_permit.arg()).int(was_queued.into()).idempotent()
    }

    /// Polls once, and returns whether the waiter is notified.
    pub(crate) async fn poll_once(&self, was_queued: bool) -> Result<bool, WaitError> {
        loop {
            match self.handle.run::<Vec<i64>>(self.poll_request(false, was_queued)).await?.first() {
                Some(1) => return Ok(true),
                Some(0) => return Ok(false),
                Some(-2) => return Err(shut_down_error(&self.handle)),
                _ => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits for a notification. With `consume`, the notification cannot go to another waiter once
    /// this has completed.
    pub(crate) async fn notified(
        &self,
        options: WaitOptions,
        consume: bool,
        was_queued: bool,
    ) -> Result<(), WaitError> {
        let queued = AtomicBool::new(was_queued);
        let poll_request = || self.poll_request(consume, queued.load(Ordering::Relaxed));
        let options = options.only_messages_for(self.participant.id());
        let notified = self.handle.poll_until(options, poll_request, |reply| match *reply {
            [1] => Ok(PollOutcome::Done(())),
            [0, lease_left] => {
                queued.store(true, Ordering::Relaxed);
                Ok(PollOutcome::Wait(lease_left))
            }
            [-2] => Err(shut_down_error(&self.handle)),
            _ => Ok(PollOutcome::Late),
        });
        notified.await
    }

    /// Leaves the queue. A notification that arrived meanwhile goes to the next waiter.
    ///
    /// Without a reply soon, the leave request is repeated in the background.
    pub(crate) async fn leave(self) {
        if self.handle.run_briefly::<i64>(self.leave_request(false)).await.is_some() {
            self.participant.disarm();
        }
    }

    /// Consumes the notification: no other waiter receives it.
    pub(crate) fn consume(self) {
        self.participant.arm(self.leave_request(true));
    }

    /// Ends the waiter without a leave request: the server has recorded that the notification is
    /// consumed.
    pub(crate) fn finish(self) {
        self.participant.disarm();
    }
}

/// Notifies the first waiter of the queue, and returns whether there was one.
pub(crate) async fn notify_one(handle: &SyncHandle, store_permit: StorePermit) -> Result<bool, Failure> {
    let request = NOTIFY_ONE.with(keys(handle)).publish_arg().arg(handle.channel.clone()).arg(store_permit.arg());
    Ok(handle.run_exactly_once::<Vec<i64>>(request).await? == [1])
}

/// Notifies all waiters of the queue, and returns their number.
pub(crate) async fn notify_all(handle: &SyncHandle) -> Result<u64, Failure> {
    let request = NOTIFY_ALL.with(keys(handle)).publish_arg().arg(handle.channel.clone());
    Ok(handle.run_exactly_once::<Vec<u64>>(request).await?.first().copied().unwrap_or_default())
}
