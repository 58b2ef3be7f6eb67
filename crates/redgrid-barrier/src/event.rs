//! An event: whether something has happened.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::into_future;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, IdempotentScript, Script};

use crate::error::{WaitError, of_read};
use crate::handle::{PollOutcome, SyncHandle, exactly_once_script, object, script};

static STATE: Script<1> = Script::new("event/state", script!("event", "event_state"));
static SET: IdempotentScript<1> = IdempotentScript::new("event/set", exactly_once_script!("event", "event_set"));
static RESET: IdempotentScript<1> = IdempotentScript::new("event/reset", exactly_once_script!("event", "event_reset"));

/// The default lifetime of a set event: 30 days, so that the keys of unused names do not stay for
/// ever.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// An event that is set or not, shared by all processes.
///
/// A wait completes while the event is set, and all waiters proceed at once when it is set. The
/// event stays set until it is [reset](Event::reset), or until its lifetime ends: 30 days unless
/// [configured](Event::lifetime).
///
/// A waiter that waits when the event is set proceeds even if the event is reset, or its lifetime
/// ends, right afterwards.
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_barrier::Event;
///
/// let migrated = Event::new(client, "schema:42");
/// migrated.set().await?; // here
/// migrated.wait().await?; // there, before or after it
/// # Ok(()) }
/// ```
#[doc(alias = "ManualResetEvent")]
#[derive(Clone, Debug)]
pub struct Event {
    handle: Result<SyncHandle, InvalidName>,
    lifetime: Option<Duration>,
}

impl Event {
    /// Returns the event with this name. No request is sent.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Event { handle: SyncHandle::new(client, "event", name), lifetime: Some(DEFAULT_LIFETIME) }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, events. It covers all
    /// keys of the object.
    ///
    /// Its operations ignore waiters. A deletion makes the event unset, and wakes no waiter. After
    /// a rename, the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.handle, layouts::event)
    }

    /// Sets how long the event stays set, 1 ms or longer. Each `set` of this handle restarts this
    /// time.
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        Event { lifetime: Some(lifetime), ..self }
    }

    /// Makes a `set` of this handle last until the event is reset, without a time limit.
    #[must_use]
    pub fn without_lifetime(self) -> Self {
        Event { lifetime: None, ..self }
    }

    /// Sets the event, and returns whether it was not set before.
    ///
    /// The call is executed exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the event may be set.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the event may or may not be set.
    pub async fn set(&self) -> Result<bool, Failure> {
        let handle = self.handle.as_ref().map_err(Clone::clone)?;
        let lifetime =
            self.lifetime.map_or(0, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX).clamp(1, MAX_LIFETIME));
        let request = SET.with([handle.key.clone()]).int(lifetime).publish_arg().arg(handle.channel.clone());
        Ok(handle.run_exactly_once::<Vec<i64>>(request).await? == [1])
    }

    /// Resets the event, and returns whether it was set.
    ///
    /// The call is executed exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the event may be reset.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the event may or may not be reset.
    pub async fn reset(&self) -> Result<bool, Failure> {
        let handle = self.handle.as_ref().map_err(Clone::clone)?;
        Ok(handle.run_exactly_once::<Vec<i64>>(RESET.with([handle.key.clone()])).await? == [1])
    }

    /// Returns whether the event is set now.
    ///
    /// # Errors
    ///
    /// [`Failure`] states why the event could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn is_set(&self) -> Result<bool, Failure> {
        let handle = self.handle.as_ref().map_err(Clone::clone)?;
        let state = handle.run::<(i64, i64)>(STATE.with([handle.key.clone()]).idempotent()).await;
        let (set, _) = state.map_err(of_read)?;
        Ok(set == 1)
    }

    /// Waits until the event is set, and returns at once if it is.
    ///
    /// The wait is unlimited unless [`EventWait::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub fn wait(&self) -> EventWait {
        EventWait { event: self.clone(), timeout: None }
    }
}

/// The maximum lifetime in milliseconds: 10 years, far below the limits of a server's arithmetic.
const MAX_LIFETIME: i64 = 10 * 365 * 24 * 3600 * 1000;

/// A future that waits for an event, created by [`Event::wait`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct EventWait {
    event: Event,
    timeout: Option<Duration>,
}

impl EventWait {
    /// Limits the wait; it is unlimited by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<(), WaitError> {
        let handle = self.event.handle?;
        let key: Bytes = handle.key.clone();
        let mut initial_count = None;
        let poll_request = || STATE.with([key.clone()]).idempotent();
        handle
            .poll_until(handle.wait_options(self.timeout).without_key(), poll_request, |reply| {
                let (set, count) = match *reply {
                    [set, count] => (set == 1, count),
                    _ => (false, 0),
                };
                // If the count is smaller than before, the server has lost the old one: compare
                // with the new count from here on.
                let initial_count = initial_count.get_or_insert(count);
                *initial_count = count.min(*initial_count);
                Ok(if set || count > *initial_count { PollOutcome::Done(()) } else { PollOutcome::Wait(-1) })
            })
            .await
            .map_err(|error| match error {
                WaitError::Failed(error) => WaitError::Failed(of_read(error)),
                other => other,
            })
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// That of [`Event::wait`].
    EventWait => Result<(), WaitError>,
    |this| this.run()
);
