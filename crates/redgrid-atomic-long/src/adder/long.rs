//! Whole numbers, counted in each process.

use std::fmt;
use std::time::Duration;

use redgrid_core::Client;

use super::error::AdderError;
use super::member::Handle;
use super::round::{Reset, Sum};

/// A sum of whole numbers that each process counts in its own memory, and that is asked for over all of them. Redisson's
/// `RLongAdder` on the wire.
///
/// Adding asks nobody and waits for nobody. A sum asks every client that has such an adder at the moment, those of Java
/// services as well. Cheap to clone; all handles of a client with one name count together. What they have counted goes with
/// the last of them, and with the process, unless it is [saved](LongAdder::saving).
///
/// ```no_run
/// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_atomic_long::LongAdder;
///
/// let views = LongAdder::new(client, "views");
/// views.increment();
/// views.add(41);
/// println!("{} views of all processes", views.sum().await?);
/// # Ok(()) }
/// ```
#[doc(alias = "RLongAdder")]
#[doc(alias = "RedissonLongAdder")]
#[derive(Clone)]
pub struct LongAdder(Handle<i64>);

impl LongAdder {
    /// The adder with this name. It begins to listen for those who sum; [`LongAdder::ready`] waits for that.
    ///
    /// Asks nobody: a name that can not be used is told by the first call that can. Where this client counts for an adder of the other kind
    /// with that name, each call tries again.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        LongAdder(Handle::new(client, name.as_ref()))
    }

    /// Has what this client counts saved to a total on the server, at this interval (10 ms to 1 day) and when the last handle
    /// goes or the client is shut down, exactly once whatever answers are lost. Sums have the total in them, those of Java too.
    ///
    /// A process that is killed loses what it counted since its last save. The total has no lifetime; a
    /// [reset](LongAdder::reset) sets it to 0. Saving goes on until the last handle has gone, at the shortest interval that one of them has
    /// asked for.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use redgrid_atomic_long::LongAdder;
    ///
    /// let views = LongAdder::new(client, "views").saving(Duration::from_secs(1))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AdderError`] where the name or the interval can not be.
    pub fn saving(self, interval: Duration) -> Result<Self, AdderError> {
        self.0.get()?.save_every(interval)?;
        Ok(self)
    }

    /// Adds `by`, of either sign, here. Where the name can not be, or is that of a [`DoubleAdder`](crate::DoubleAdder) in this client, nothing
    /// is added; calls that can tell say so.
    #[inline]
    pub fn add(&self, by: i64) {
        if let Ok(counting) = self.0.get() {
            counting.member.local.add(by);
        }
    }

    /// Adds 1 here.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Takes 1 away here.
    #[inline]
    pub fn decrement(&self) {
        self.add(-1);
    }

    /// What all processes have counted: each that has such an adder is asked, this one too. What was added before is in it;
    /// what is added meanwhile may be. 10 s at most, unless [`Sum::timeout`] says otherwise.
    ///
    /// # Errors
    ///
    /// [`AdderError::Partial`] with what came, where not all have answered in time; [`AdderError::Overflow`] where the sum is
    /// beyond i64, or was on the way to it: answers are added in the order in which they come.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "sumAsync")]
    pub fn sum(&self) -> Sum<i64> {
        Sum::new(self.0.get().cloned())
    }

    /// Has all processes begin at 0 again, and the saved total. What was added before is gone; what is added meanwhile may be.
    /// 10 s at most, unless [`Reset::timeout`] says otherwise. A process whose subscription is being made anew at that moment is not
    /// asked, and keeps what it has.
    ///
    /// # Errors
    ///
    /// [`AdderError::Partial`] where not all have answered in time: those of redgrid that hear of it later are not reset any more.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it is done by those who have heard of it, or by nobody.
    #[doc(alias = "resetAsync")]
    pub fn reset(&self) -> Reset<i64> {
        Reset::new(self.0.get().cloned())
    }

    /// Waits until this client hears those who sum: until then their sums are without what it has counted. As long as a call may
    /// be without contact.
    ///
    /// # Errors
    ///
    /// [`AdderError::Unavailable`] when that has not come about.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn ready(&self) -> Result<(), AdderError> {
        self.0.get()?.ready().await
    }

    /// Ends this handle. The last one of the client takes with it what was counted here: open rounds are answered, what is to be
    /// saved is saved, then it does not listen any more. Dropping it does the same in the background. A sum or a reset that is under way
    /// is a handle as well: where there is one, this does not wait for the end.
    ///
    /// # Errors
    ///
    /// [`AdderError::NotSaved`] where what was to be saved could not be.
    ///
    /// # Cancel safety
    ///
    /// It goes on in the background.
    pub async fn destroy(self) -> Result<(), AdderError> {
        self.0.end().await
    }
}

impl fmt::Debug for LongAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
