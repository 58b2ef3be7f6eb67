//! An event: something that has happened, or has not yet.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, IdempotentScript, Script};

use crate::error::{AskError, WaitError};
use crate::place::{Place, Seen, object, once, script};

static LOOK: Script<1> = Script::new("event/look", script!("event", "event_look"));
static SET: IdempotentScript<1> = IdempotentScript::new("event/set", once!("event", "event_set"));
static RESET: IdempotentScript<1> = IdempotentScript::new("event/reset", once!("event", "event_reset"));

/// How long an event stays set that nobody resets: 30 days, so that forgotten names do not stay for ever.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// An event that is set or not, for all processes: whoever waits goes on while it is set, and everybody at once when it becomes so.
/// It stays set until it is [reset](Event::reset), or its lifetime is over: 30 days unless said otherwise.
///
/// Who waits when it is set goes on even if it is reset, or its lifetime ends, right after.
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
    place: Result<Place, InvalidName>,
    lifetime: Option<Duration>,
}

impl Event {
    /// The event with this name. Nothing is asked of the server.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Event { place: Place::new(client, "event", name), lifetime: Some(LIFETIME) }
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with all that belongs to it.
    ///
    /// Who takes part is not asked: behind a deletion it is not set; nobody is woken by that. Behind a rename the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.place, layouts::event)
    }

    /// What is set through this one is so for at most this long (1 ms at least); each `set` begins it anew.
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        Event { lifetime: Some(lifetime), ..self }
    }

    /// What is set through this one is so until it is reset, however long that is.
    #[must_use]
    pub fn without_lifetime(self) -> Self {
        Event { lifetime: None, ..self }
    }

    /// Sets it; true if it was not set before. Exactly once, although answers are lost.
    ///
    /// # Errors
    ///
    /// [`AskError`] says whether it may be set.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be set.
    pub async fn set(&self) -> Result<bool, AskError> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        let lifetime = self.lifetime.map_or(0, |it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX).clamp(1, MOST));
        let request = SET.with([place.key.clone()]).int(lifetime).publish_here().arg(place.channel.clone());
        Ok(place.ask_once::<Vec<i64>>(request).await? == [1])
    }

    /// Sets it no more; true if it was set. Exactly once, although answers are lost.
    ///
    /// # Errors
    ///
    /// [`AskError`] says whether it may be reset.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be reset.
    pub async fn reset(&self) -> Result<bool, AskError> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        Ok(place.ask_once::<Vec<i64>>(RESET.with([place.key.clone()])).await? == [1])
    }

    /// Whether it is set at this instant.
    ///
    /// # Errors
    ///
    /// [`AskError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn is_set(&self) -> Result<bool, AskError> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        let look = place.ask::<(i64, i64)>(LOOK.with([place.key.clone()]).idempotent()).await;
        let (set, _) = look.map_err(AskError::of_read)?;
        Ok(set == 1)
    }

    /// Waits until it is set: at once if it is, as long as it takes or as [`EventWait::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`WaitError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub fn wait(&self) -> EventWait {
        EventWait { event: self.clone(), within: None }
    }
}

/// The longest lifetime: 10 years, far from where a server's arithmetic ends.
const MOST: i64 = 10 * 365 * 24 * 3600 * 1000;

/// Waits for an event when awaited; made by [`Event::wait`].
#[must_use = "nobody waits until this is awaited"]
#[derive(Clone, Debug)]
pub struct EventWait {
    event: Event,
    within: Option<Duration>,
}

impl EventWait {
    /// Waits at most this long; as long as it takes unless set.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<(), WaitError> {
        let place = self.event.place?;
        let key: Bytes = place.key.clone();
        let mut before = None;
        let look = || LOOK.with([key.clone()]).idempotent();
        place
            .look(place.bound(self.within).without_key(), look, |answer| {
                let (set, times) = match *answer {
                    [set, times] => (set == 1, times),
                    _ => (false, 0),
                };
                // Fewer than before: what was counted is forgotten, and this is counted from here.
                let before = before.get_or_insert(times);
                *before = times.min(*before);
                Ok(if set || times > *before { Seen::Done(()) } else { Seen::Wait(-1) })
            })
            .await
            .map_err(|error| match error {
                WaitError::Failed(error) => WaitError::Failed(error.of_read()),
                other => other,
            })
    }
}

impl IntoFuture for EventWait {
    type Output = Result<(), WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`Event::wait`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
