//! A number that all processes share: reading it, and adding to it.

use std::sync::Arc;

use redgrid_core::Client;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};

use crate::add::Add;
use crate::adds::Adding;
use crate::error::AtomicError;
use crate::line::Line;
use crate::number::Number;
use crate::numeral::Numeral;

/// A whole number, −2^63 to 2^63 − 1, shared by all processes that reach the same server. Redisson's `RAtomicLong` on the wire.
///
/// Exact over all of these: no number passes through floating point on its way.
///
/// ```no_run
/// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_atomic_long::AtomicLong;
///
/// let hits = AtomicLong::new(client, "hits");
/// let so_many = hits.increment().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RAtomicLong")]
#[doc(alias = "RedissonAtomicLong")]
pub type AtomicLong = Atomic<i64>;

/// A floating point number, shared by all processes that reach the same server. Redisson's `RAtomicDouble` on the wire.
///
/// What is read, told and compared is the nearest double to what the server has. What is set is kept as it is. The server adds with
/// more digits than a double has, and keeps 17 decimals of the sum: a tenth and two tenths are three tenths, and an
/// addition leaves nothing of what is smaller than 10^-17. A sum beyond all doubles is
/// [`Overflow`](AtomicError::Overflow) and nothing is changed; numbers that are not finite are refused.
///
/// What several tasks of a process add at the same time leaves as one script (many, on a runtime of one thread, as two), which
/// adds them one after the other: what a sum is depends on their order.
///
/// ```no_run
/// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_atomic_long::{AtomicDouble, Comparison};
///
/// let best = AtomicDouble::new(client, "best lap");
/// let is_record = best.set_if(Comparison::Greater, 71.25, 71.25).await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RAtomicDouble")]
#[doc(alias = "RedissonAtomicDouble")]
pub type AtomicDouble = Atomic<f64>;

/// A number that all processes share which reach the same server: [`AtomicLong`] or [`AtomicDouble`].
///
/// Cheap to clone; clones are the same number. Making one asks nobody: an invalid name is told by the first call. A number that
/// is absent is 0.
///
/// What several tasks of a process add at the same time leaves as one command. Every change is sent once: where its answer is
/// lost it ends [`OutcomeUnknown`](AtomicError::OutcomeUnknown), and is not made again by itself; unless
/// [`exactly_once`](Atomic::exactly_once) says so.
#[derive(Clone)]
pub struct Atomic<T: Numeral>(Result<Arc<Shared<T>>, InvalidName>);

struct Shared<T: Numeral> {
    number: Number,
    adding: Adding<T>,
    /// Where updates wait for each other.
    line: Arc<Line<T>>,
}

impl<T: Numeral> Atomic<T> {
    /// The number with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Atomic::over(Number::new::<T>(client, name))
    }

    fn over(number: Result<Number, InvalidName>) -> Self {
        Atomic(number.map(|number| {
            let line = number.client.shared(&number.key, Line::default);
            Arc::new(Shared { adding: Adding::of(&number), line, number })
        }))
    }

    /// The same number, whose changes act exactly once although answers are lost: each is remembered for half a minute under a key
    /// beside the name, sent again until it is answered, and costs a script.
    ///
    /// A call is told within `response_timeout × (retries + 1)` as any other. Where that is over before an answer it is
    /// [`OutcomeUnknown`](AtomicError::OutcomeUnknown), and sent again in the background, for half a minute in all; the client's next
    /// changes of the name that act exactly once come after it, and may end [`Unavailable`](AtomicError::Unavailable) meanwhile.
    #[must_use]
    pub fn exactly_once(self) -> Self {
        Atomic::over(self.0.map(|shared| Number { once: true, ..shared.number.clone() }))
    }

    /// What every object has: other names, a lifetime, its size in memory, its events. Additions that are under way go to the
    /// name: behind a deletion or a rename they begin with 0.
    pub fn object(&self) -> Object {
        match &self.0 {
            Ok(shared) => Object::with_layout(&shared.number.client, Ok(shared.number.name.clone()), layouts::alone),
            Err(invalid) => Object::unusable(invalid.clone()),
        }
    }

    fn shared(&self) -> Result<&Shared<T>, AtomicError> {
        self.0.as_deref().map_err(|invalid| invalid.clone().into())
    }

    pub(crate) fn number(&self) -> Result<&Number, AtomicError> {
        self.shared().map(|shared| &shared.number)
    }

    pub(crate) fn line(&self) -> Result<&Line<T>, AtomicError> {
        self.shared().map(|shared| &*shared.line)
    }

    /// What it is.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn get(&self) -> Result<T, AtomicError> {
        let number = self.number()?;
        number.get(number.until()).await
    }

    /// Adds 1; tells what it is then.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for those before it, it adds nothing; nor later, before it has left, unless others leave with it. Dropped
    /// later than that, it adds once.
    #[doc(alias = "incrementAndGet")]
    pub async fn increment(&self) -> Result<T, AtomicError> {
        self.added(T::ONE).await.map(|(_, now)| now)
    }

    /// Takes 1 away; tells what it is then.
    ///
    /// # Errors
    ///
    /// As [`Atomic::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::increment`].
    #[doc(alias = "decrementAndGet")]
    pub async fn decrement(&self) -> Result<T, AtomicError> {
        self.added(T::MINUS_ONE).await.map(|(_, now)| now)
    }

    /// Adds `by`, when awaited; tells what it is then. With bounds and a lifetime, where [`Add`]'s options say so.
    ///
    /// Its errors are those of [`Atomic::increment`], and what is dropped leaves the same behind.
    #[doc(alias = "addAndGet")]
    #[doc(alias = "incrementAndGet")]
    pub fn add(&self, by: T) -> Add<T> {
        Add::new(self.clone(), by)
    }

    /// Adds 1; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`Atomic::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::increment`].
    #[doc(alias = "getAndIncrement")]
    pub async fn get_and_increment(&self) -> Result<T, AtomicError> {
        self.get_and_add(T::ONE).await
    }

    /// Takes 1 away; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`Atomic::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::increment`].
    #[doc(alias = "getAndDecrement")]
    pub async fn get_and_decrement(&self) -> Result<T, AtomicError> {
        self.get_and_add(T::MINUS_ONE).await
    }

    /// Adds `by`; tells what it was: told by the server, where Redisson takes `by` away again from the double it was told.
    ///
    /// # Errors
    ///
    /// As [`Atomic::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`Atomic::increment`].
    #[doc(alias = "getAndAdd")]
    pub async fn get_and_add(&self, by: T) -> Result<T, AtomicError> {
        self.added(by).await.map(|(was, _)| was)
    }

    /// Adds `by`, together with what others add: what it was, and is then.
    pub(crate) async fn added(&self, by: T) -> Result<(T, T), AtomicError> {
        let Shared { number, adding, .. } = self.shared()?;
        number.checked("summand", by)?;
        adding.add(&number.client, by).await.map_err(|error| number.not_added(by, error))
    }
}

impl<T: Numeral> std::fmt::Debug for Atomic<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.0.as_ref().map(|shared| &shared.number);
        let mut shown = f.debug_struct(T::NAME);
        shown.field("name", &number.map(|number| &number.name));
        shown.field("exactly_once", &number.is_ok_and(|number| number.once)).finish_non_exhaustive()
    }
}
