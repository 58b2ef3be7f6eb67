//! Notifications between processes.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};

use crate::error::{AskError, WaitError};
use crate::line::{self, Stand, Stores};
use crate::place::{Place, object};

/// Wakes one who waits, or all, in whichever process. As tokio's `Notify`: what [`notify_one`](Notify::notify_one) finds nobody for is
/// kept, once, for who comes next.
///
/// Those who wait are notified in the order of their coming. Who is notified and dies, or is dropped, before it went on passes that
/// to the next.
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
    place: Result<Place, InvalidName>,
}

impl Notify {
    /// The notifications with this name. Nothing is asked of the server.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Notify { place: Place::new(client, "notify", name) }
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with all that belongs to it.
    ///
    /// Who takes part is not asked: behind a deletion those who wait line up anew at their next look. Behind a rename the same is true of the old name.
    pub fn object(&self) -> Object {
        object(&self.place, layouts::notify)
    }

    /// Notifies the one who has waited longest; true if somebody waited. Otherwise who comes next is notified at once, if that is
    /// within 10 minutes; however often this is called before, it is one. Exactly once, although answers are lost.
    ///
    /// # Errors
    ///
    /// [`AskError`] says whether it may have been done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    pub async fn notify_one(&self) -> Result<bool, AskError> {
        line::one(self.place.as_ref().map_err(Clone::clone)?, Stores::Yes).await
    }

    /// Notifies all who wait at the moment, and keeps nothing for others; says how many stood in line. Exactly once, although answers
    /// are lost.
    ///
    /// # Errors
    ///
    /// [`AskError`] says whether it may have been done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    pub async fn notify_waiters(&self) -> Result<u64, AskError> {
        line::all(self.place.as_ref().map_err(Clone::clone)?).await
    }

    /// Waits to be notified, as long as it takes or as [`Notified::timeout`] says. It stands in line once the server has answered for
    /// the first time, not before.
    ///
    /// # Errors
    ///
    /// [`WaitError`]; what it may have been notified of meanwhile goes to the next.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the line in the background, at the latest when its lease ends (30 s unless set); what it was notified of goes to
    /// the next.
    pub fn notified(&self) -> Notified {
        Notified { notify: self.clone(), within: None }
    }
}

/// Waits to be notified when awaited; made by [`Notify::notified`].
#[must_use = "nobody waits until this is awaited"]
#[derive(Clone, Debug)]
pub struct Notified {
    notify: Notify,
    within: Option<Duration>,
}

impl Notified {
    /// Waits at most this long; as long as it takes unless set.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<(), WaitError> {
        let place = self.notify.place?;
        let stand = place.drive(self.within, |within| notified(place.clone(), within)).await?;
        stand.done();
        Ok(())
    }
}

/// Waits to be notified. The notification goes to the next in line unless the result is marked as done.
async fn notified(place: Place, within: Option<Duration>) -> Result<Stand, WaitError> {
    let stand = Stand::new(&place, Stores::Yes);
    match stand.notified(place.bound(within), true, false).await {
        Ok(()) => Ok(stand),
        Err(error @ WaitError::TimedOut { .. }) => {
            stand.leaves().await;
            Err(error)
        }
        Err(error) => Err(error),
    }
}

impl IntoFuture for Notified {
    type Output = Result<(), WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`Notify::notified`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
