//! Floating point numbers, counted in each process.

use std::fmt;
use std::time::Duration;

use redgrid_core::Client;

use super::error::AdderError;
use super::member::{Counting, Handle};
use super::round::{Reset, Sum};

/// A sum of floating point numbers that each process counts in its own memory, and that is asked for over all of them. Redisson's
/// `RDoubleAdder` on the wire.
///
/// Adding asks nobody and waits for nobody. A sum asks every client that has such an adder at the moment, those of Java
/// services as well. Cheap to clone; all handles of a client with one name count together. What they have counted goes with
/// the last of them, and with the process, unless it is [saved](DoubleAdder::saving). On the way to a sum numbers have 17
/// decimal places, as Redis has them: what is smaller is lost.
///
/// ```no_run
/// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_atomic_long::DoubleAdder;
///
/// let litres = DoubleAdder::new(client, "litres");
/// litres.add(0.5)?;
/// println!("{} litres of all processes", litres.sum().await?);
/// # Ok(()) }
/// ```
#[doc(alias = "RDoubleAdder")]
#[doc(alias = "RedissonDoubleAdder")]
#[derive(Clone)]
pub struct DoubleAdder(Handle<f64>);

impl DoubleAdder {
    /// The adder with this name. It begins to listen for those who sum; [`DoubleAdder::ready`] waits for that.
    ///
    /// Asks nobody: a name that can not be used is told by the first call that can. Where this client counts for an adder of the other kind
    /// with that name, each call tries again.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        DoubleAdder(Handle::new(client, name.as_ref()))
    }

    /// Has what this client counts saved to a total on the server, at this interval (10 ms to 1 day) and when the last handle
    /// goes or the client is shut down, exactly once whatever answers are lost. Sums have the total in them, those of Java too.
    ///
    /// A process that is killed loses what it counted since its last save. The total has no lifetime; a
    /// [reset](DoubleAdder::reset) sets it to 0. Saving goes on until the last handle has gone, at the shortest interval that one of them has
    /// asked for.
    ///
    /// ```no_run
    /// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use redgrid_atomic_long::DoubleAdder;
    ///
    /// let views = DoubleAdder::new(client, "views").saving(Duration::from_secs(1))?;
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

    /// Adds `by`, of either sign, here.
    ///
    /// # Errors
    ///
    /// [`AdderError::InvalidArgument`] where it is not finite; [`AdderError::Overflow`] where what this thread has counted since the
    /// last sum or save would not be. Nothing is added then. All that is counted here may be beyond f64 all the same, which sums tell
    /// until a reset.
    #[inline]
    pub fn add(&self, by: f64) -> Result<(), AdderError> {
        let counting = self.0.get()?;
        if counting.member.local.add(by) { Ok(()) } else { Err(counting.refused(by)) }
    }

    /// Adds 1 here.
    ///
    /// # Errors
    ///
    /// As [`DoubleAdder::add`].
    #[inline]
    pub fn increment(&self) -> Result<(), AdderError> {
        self.add(1.0)
    }

    /// Takes 1 away here.
    ///
    /// # Errors
    ///
    /// As [`DoubleAdder::add`].
    #[inline]
    pub fn decrement(&self) -> Result<(), AdderError> {
        self.add(-1.0)
    }

    /// What all processes have counted: each that has such an adder is asked, this one too. What was added before is in it;
    /// what is added meanwhile may be. 10 s at most, unless [`Sum::timeout`] says otherwise.
    ///
    /// # Errors
    ///
    /// [`AdderError::Partial`] with what came, where not all have answered in time; [`AdderError::Overflow`] where the sum is
    /// beyond f64, or was on the way to it, or what one process has counted is.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "sumAsync")]
    pub fn sum(&self) -> Sum<f64> {
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
    pub fn reset(&self) -> Reset<f64> {
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

impl fmt::Debug for DoubleAdder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Counting<f64> {
    /// Why a number was not added.
    #[cold]
    fn refused(&self, by: f64) -> AdderError {
        let name = self.member.name.clone();
        match by.is_finite() {
            true => AdderError::Overflow { name },
            false => AdderError::InvalidArgument {
                name,
                option: "summand",
                expected: "a finite number",
                got: by.to_string(),
            },
        }
    }
}
