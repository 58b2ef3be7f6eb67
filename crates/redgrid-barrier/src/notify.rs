//! Notifications between processes.

use std::time::Duration;

use redgrid_core::into_future;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure};

use crate::error::WaitError;
use crate::handle::{SyncHandle, object};
use crate::notify_queue::{self, StorePermit, Waiter};

/// Wakes one waiter or all waiters, in whichever process they run, like tokio's `Notify`.
///
/// If [`notify_one`](Notify::notify_one) finds no waiter, one permit is stored for the next waiter.
///
/// Waiters are notified in FIFO order. If a notified waiter dies or is dropped before it proceeds,
/// its notification goes to the next waiter.
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_barrier::Notify;
///
/// let work = Notify::new(client, "mail:work");
/// work.notify_one().await?; // here, when there is something to do
/// work.notified().await?; // there
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Notify {
    handle: Result<SyncHandle, InvalidName>,
}

impl Notify {
    /// Returns the notifications with this name. No request is sent.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Notify { handle: SyncHandle::new(client, "notify", name) }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, events. It covers all
    /// keys of the object.
    ///
    /// Its operations ignore waiters. After a deletion, waiters join the queue again with their
    /// next poll. After a rename, they do the same under the old name.
    pub fn object(&self) -> Object {
        object(&self.handle, layouts::notify)
    }

    /// Notifies the waiter that has waited longest, and returns whether there was one.
    ///
    /// Without a waiter, one permit is stored for 10 minutes: the next waiter is notified at once.
    /// Repeated calls store no second permit. The call is executed exactly once, even if replies
    /// are lost.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the notification may have been sent.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the notification may or may not be sent.
    pub async fn notify_one(&self) -> Result<bool, Failure> {
        notify_queue::notify_one(self.handle.as_ref().map_err(Clone::clone)?, StorePermit::Yes).await
    }

    /// Notifies all current waiters, and returns the number of waiters in the queue.
    ///
    /// No permit is stored for later waiters. The call is executed exactly once, even if replies
    /// are lost.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the notifications may have been sent.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the notifications may or may not be sent.
    pub async fn notify_waiters(&self) -> Result<u64, Failure> {
        notify_queue::notify_all(self.handle.as_ref().map_err(Clone::clone)?).await
    }

    /// Waits for a notification. The wait is unlimited unless [`Notified::timeout`] is set.
    ///
    /// The waiter joins the queue when its first request is executed, not when this method is
    /// called.
    ///
    /// # Errors
    ///
    /// [`WaitError`]. A notification that arrived meanwhile goes to the next waiter.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the waiter leaves the queue in the background, at the latest when
    /// its lease ends (30 s unless configured). Its notification goes to the next waiter.
    pub fn notified(&self) -> Notified {
        Notified { notify: self.clone(), timeout: None }
    }
}

/// A future that waits for a notification, created by [`Notify::notified`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Notified {
    notify: Notify,
    timeout: Option<Duration>,
}

impl Notified {
    /// Limits the wait; it is unlimited by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<(), WaitError> {
        let handle = self.notify.handle?;
        let waiter = handle.drive(self.timeout, |timeout| notified(handle.clone(), timeout)).await?;
        waiter.finish();
        Ok(())
    }
}

/// Waits for a notification. The notification goes to the next waiter unless the result is
/// [finished](Waiter::finish).
async fn notified(handle: SyncHandle, timeout: Option<Duration>) -> Result<Waiter, WaitError> {
    let waiter = Waiter::new(&handle, StorePermit::Yes);
    match waiter.notified(handle.wait_options(timeout), true, false).await {
        Ok(()) => Ok(waiter),
        Err(error @ WaitError::TimedOut { .. }) => {
            waiter.leave().await;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// That of [`Notify::notified`].
    Notified => Result<(), WaitError>,
    |this| this.run()
);
