//! A number that all processes share: reads and additions.

use std::sync::Arc;

use redgrid_core::Client;
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};

use crate::add::Add;
use crate::atomic_number::AtomicNumber;
use crate::batch::AddBatcher;
use crate::error::AtomicError;
use crate::number::Number;

/// A whole number, −2^63 to 2^63 − 1, shared by all processes that use the same server. It has the
/// wire format of Redisson's `RAtomicLong`.
///
/// It is exact over the whole range: no number passes through floating point.
///
/// ```no_run
/// # async fn demo(client: &redgrid_atomic_long::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_atomic_long::AtomicLong;
///
/// let hits = AtomicLong::new(client, "hits");
/// let count = hits.increment().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RAtomicLong")]
#[doc(alias = "RedissonAtomicLong")]
pub type AtomicLong = Atomic<i64>;

/// A floating point number, shared by all processes that use the same server. It has the wire
/// format of Redisson's `RAtomicDouble`.
///
/// Reads, results and comparisons use the double nearest to the server's value. A set value is
/// stored as it is. The server adds with more digits than a double has, and stores 17 decimals of
/// the sum: 0.1 + 0.2 is exactly 0.3, and an addition loses everything below 10^-17. A sum beyond
/// all doubles is an [`Overflow`](AtomicError::Overflow) and changes nothing. Numbers that are not
/// finite are refused.
///
/// Concurrent additions of several tasks of a process are sent as one script, which adds them in
/// order. On a single-threaded runtime, many of them are sent as two scripts. The sum depends on
/// the order.
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

/// A number shared by all processes that use the same server: [`AtomicLong`] or [`AtomicDouble`].
///
/// It is cheap to clone; clones are handles of the same number. Creating a handle sends no request:
/// the first call reports an invalid name. An absent number is 0.
///
/// Concurrent additions of several tasks of a process are sent as one command. Every change is sent
/// once: after a lost reply it is [`OutcomeUnknown`](crate::Failure::OutcomeUnknown), and is not
/// retried, unless [`exactly_once`](Atomic::exactly_once) is set.
#[derive(Clone)]
pub struct Atomic<T: AtomicNumber>(Result<Arc<Shared<T>>, InvalidName>);

struct Shared<T: AtomicNumber> {
    number: Number,
    batcher: AddBatcher<T>,
}

impl<T: AtomicNumber> Atomic<T> {
    /// Returns the number with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Atomic::from_number(Number::new::<T>(client, name))
    }

    fn from_number(number: Result<Number, InvalidName>) -> Self {
        Atomic(number.map(|number| Arc::new(Shared { batcher: AddBatcher::of(&number), number })))
    }

    /// Returns a handle of the same number whose changes are executed exactly once, even if replies
    /// are lost.
    ///
    /// Each change is retried until it is answered, and costs a script call. A companion key stores
    /// its reply for half a minute.
    ///
    /// A call returns within `response_timeout × (retries + 1)`, like any other. Without a reply by
    /// then it returns [`OutcomeUnknown`](crate::Failure::OutcomeUnknown), and the change is
    /// retried in the background, for half a minute in all. Meanwhile the client's next
    /// exactly-once changes of the name wait for this one, and may end as
    /// [`Unavailable`](crate::Failure::Unavailable).
    #[must_use]
    pub fn exactly_once(self) -> Self {
        Atomic::from_number(self.0.map(|shared| Number { exactly_once: true, ..shared.number.clone() }))
    }

    /// Returns the [`Object`] of this name: renaming, lifetime, memory size, events.
    ///
    /// Additions in flight go to the name: after a deletion or a rename they start at 0.
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

    /// Returns the number.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn get(&self) -> Result<T, AtomicError> {
        let number = self.number()?;
        number.get(number.deadline()).await
    }

    /// Adds 1, and returns the new number.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while earlier additions are in flight, it adds nothing. If it is
    /// dropped after that, but before its batch is sent, it adds only if other callers still wait
    /// for the batch. If it is dropped later, it adds once.
    #[doc(alias = "incrementAndGet")]
    pub async fn increment(&self) -> Result<T, AtomicError> {
        self.add_batched(T::ONE).await.map(|(_, after)| after)
    }

    /// Subtracts 1, and returns the new number.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::increment`].
    #[doc(alias = "decrementAndGet")]
    pub async fn decrement(&self) -> Result<T, AtomicError> {
        self.add_batched(T::MINUS_ONE).await.map(|(_, after)| after)
    }

    /// Adds `by` when awaited, and resolves to the new number. The options of [`Add`] set bounds
    /// and a lifetime.
    ///
    /// Errors and cancel safety are those of [`Atomic::increment`].
    #[doc(alias = "addAndGet")]
    #[doc(alias = "incrementAndGet")]
    pub fn add(&self, by: T) -> Add<T> {
        Add::new(self.clone(), by)
    }

    /// Adds 1, and returns the previous number.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::increment`].
    #[doc(alias = "getAndIncrement")]
    pub async fn get_and_increment(&self) -> Result<T, AtomicError> {
        self.get_and_add(T::ONE).await
    }

    /// Subtracts 1, and returns the previous number.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::increment`].
    #[doc(alias = "getAndDecrement")]
    pub async fn get_and_decrement(&self) -> Result<T, AtomicError> {
        self.get_and_add(T::MINUS_ONE).await
    }

    /// Adds `by`, and returns the previous number.
    ///
    /// The previous number is exact. Redisson, in contrast, subtracts `by` from the new double.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Atomic::increment`].
    #[doc(alias = "getAndAdd")]
    pub async fn get_and_add(&self, by: T) -> Result<T, AtomicError> {
        self.add_batched(by).await.map(|(before, _)| before)
    }

    /// Adds `by`, batched with concurrent additions. Returns the number before and after.
    pub(crate) async fn add_batched(&self, by: T) -> Result<(T, T), AtomicError> {
        let Shared { number, batcher, .. } = self.shared()?;
        number.check("summand", by)?;
        batcher.add(&number.client, by).await.map_err(|error| number.add_error(by, error))
    }
}

impl<T: AtomicNumber> std::fmt::Debug for Atomic<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.0.as_ref().map(|shared| &shared.number);
        let mut debug = f.debug_struct(T::NAME);
        debug.field("name", &number.map(|number| &number.name));
        debug.field("exactly_once", &number.is_ok_and(|number| number.exactly_once)).finish_non_exhaustive()
    }
}
