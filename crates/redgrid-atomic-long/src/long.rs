//! A whole number that all processes share.

use std::sync::Arc;

use redgrid_core::name::InvalidName;
use redgrid_core::{Client, Combiner, ServerError};

use crate::add::Add;
use crate::adds::Adds;
use crate::error::AtomicError;
use crate::number::Number;

/// How often an update is begun anew when others were quicker.
const ROUNDS: usize = 100;

/// A whole number, −2^63 to 2^63 − 1, shared by all processes that reach the same server. Redisson's `RAtomicLong` on the wire.
///
/// Cheap to clone; clones are the same number. Making one asks nobody: an invalid name is told by the first call. A number that
/// is absent is 0.
///
/// What several tasks of a process add at the same time leaves as one command. Every change is sent once: where its answer is
/// lost it ends [`OutcomeUnknown`](AtomicError::OutcomeUnknown), and is not made again by itself; unless
/// [`exactly_once`](AtomicLong::exactly_once) says so.
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
#[derive(Clone)]
pub struct AtomicLong(Result<Arc<Shared>, InvalidName>);

struct Shared {
    number: Number,
    sums: Sums,
}

/// Both ways of adding, each shared by all handles of the client.
enum Sums {
    Plain(Arc<Combiner<Adds<false>>>),
    Once(Arc<Combiner<Adds<true>>>),
}

impl Sums {
    fn of(number: &Number) -> Sums {
        let (client, key) = (&number.client, &number.key);
        match number.once {
            false => Sums::Plain(client.shared(key, || Combiner::new(Adds(number.clone())))),
            true => Sums::Once(client.shared(key, || Combiner::new(Adds(number.clone())))),
        }
    }

    async fn add(&self, client: &Client, by: i64) -> Result<i64, ServerError> {
        match self {
            Sums::Plain(sums) => sums.ask(client, by).await?,
            Sums::Once(sums) => sums.ask(client, by).await?,
        }
    }
}

/// How a number compares to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Comparison {
    /// It is less.
    Less,
    /// It is less or equal.
    LessOrEqual,
    /// It is greater.
    Greater,
    /// It is greater or equal.
    GreaterOrEqual,
    /// It is equal.
    Equal,
    /// It is another.
    NotEqual,
}

impl Comparison {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Equal => "==",
            Comparison::NotEqual => "~=",
        }
    }
}

impl AtomicLong {
    /// The number with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        AtomicLong::over(Number::new(client, name))
    }

    fn over(number: Result<Number, InvalidName>) -> Self {
        AtomicLong(number.map(|number| Arc::new(Shared { sums: Sums::of(&number), number })))
    }

    /// The same number, whose changes act exactly once although answers are lost: each is remembered for half a minute under a key
    /// beside the name, sent again until it is answered, and costs a script.
    #[must_use]
    pub fn exactly_once(self) -> Self {
        AtomicLong::over(self.0.map(|shared| Number { once: true, ..shared.number.clone() }))
    }

    fn shared(&self) -> Result<&Shared, AtomicError> {
        self.0.as_deref().map_err(|invalid| invalid.clone().into())
    }

    pub(crate) fn number(&self) -> Result<&Number, AtomicError> {
        self.shared().map(|shared| &shared.number)
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
    pub async fn get(&self) -> Result<i64, AtomicError> {
        let number = self.number()?;
        number.text().await?.map_or(Ok(0), |text| read(number, text))
    }

    /// Sets it, without a lifetime.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn set(&self, new: i64) -> Result<(), AtomicError> {
        self.number()?.set(new.to_string()).await
    }

    /// Adds 1; tells what it is then.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it has left, it adds nothing; dropped later, it adds once.
    #[doc(alias = "incrementAndGet")]
    pub async fn increment(&self) -> Result<i64, AtomicError> {
        self.added(1).await
    }

    /// Takes 1 away; tells what it is then.
    ///
    /// # Errors
    ///
    /// As [`AtomicLong::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`AtomicLong::increment`].
    #[doc(alias = "decrementAndGet")]
    pub async fn decrement(&self) -> Result<i64, AtomicError> {
        self.added(-1).await
    }

    /// Adds `by`, when awaited; tells what it is then. With bounds and a lifetime, where [`Add`]'s options say so.
    #[doc(alias = "addAndGet")]
    pub fn add(&self, by: i64) -> Add {
        Add::new(self.clone(), by)
    }

    /// Adds 1; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`AtomicLong::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`AtomicLong::increment`].
    #[doc(alias = "getAndIncrement")]
    pub async fn get_and_increment(&self) -> Result<i64, AtomicError> {
        self.get_and_add(1).await
    }

    /// Takes 1 away; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`AtomicLong::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`AtomicLong::increment`].
    #[doc(alias = "getAndDecrement")]
    pub async fn get_and_decrement(&self) -> Result<i64, AtomicError> {
        self.get_and_add(-1).await
    }

    /// Adds `by`; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`AtomicLong::increment`].
    ///
    /// # Cancel safety
    ///
    /// As [`AtomicLong::increment`].
    #[doc(alias = "getAndAdd")]
    pub async fn get_and_add(&self, by: i64) -> Result<i64, AtomicError> {
        // What it was is a number that there was.
        self.added(by).await.map(|now| now.wrapping_sub(by))
    }

    pub(crate) async fn added(&self, by: i64) -> Result<i64, AtomicError> {
        let Shared { number, sums } = self.shared()?;
        sums.add(&number.client, by).await.map_err(|error| match error.is_overflow() {
            true => AtomicError::Overflow { name: number.name.clone(), by: by.to_string() },
            false => number.failed(error),
        })
    }

    /// Sets it, without a lifetime; tells what it was.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "getAndSet")]
    pub async fn get_and_set(&self, new: i64) -> Result<i64, AtomicError> {
        let number = self.number()?;
        read(number, number.get_and_set(Some(new.to_string())).await?)
    }

    /// Deletes it; tells what it was.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<i64, AtomicError> {
        let number = self.number()?;
        read(number, number.get_and_set(None).await?)
    }

    /// Sets it, without a lifetime, if it is `expected`; tells whether it was.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "compareAndSet")]
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool, AtomicError> {
        Ok(self.number()?.compare_and_set(expected.to_string(), new.to_string(), false).await?.0)
    }

    /// Sets it, without a lifetime, if it compares so to `to`; tells whether it did. Exact over all numbers, where Redisson's
    /// `setIfLess` and `setIfGreater` are up to 2^53.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "setIfLess")]
    #[doc(alias = "setIfGreater")]
    pub async fn set_if(&self, how: Comparison, to: i64, new: i64) -> Result<bool, AtomicError> {
        self.number()?.replace_if(how.sign(), to.to_string(), Some(new.to_string())).await
    }

    /// Deletes it if it is there and compares so to `to`; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "compareAndDelete")]
    pub async fn delete_if(&self, how: Comparison, to: i64) -> Result<bool, AtomicError> {
        self.number()?.replace_if(how.sign(), to.to_string(), None).await
    }

    /// Deletes it; tells whether it was there.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, AtomicError> {
        let number = self.number()?;
        let request = redgrid_core::Request::command("DEL").key(number.key.clone());
        number.client.run(request).await.map_err(|source| number.failed(source))
    }

    /// Sets it to what `change` makes of it, whatever others do meanwhile; `change` is called anew with each new number. Tells what
    /// it is then. Its lifetime stays. After an unknown answer it does not go on.
    ///
    /// # Errors
    ///
    /// [`AtomicError::Contended`] when others were quicker 100 times; else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn update(&self, mut change: impl FnMut(i64) -> i64) -> Result<i64, AtomicError> {
        let number = self.number()?;
        let mut was = self.get().await?;
        for _ in 0..ROUNDS {
            let new = change(was);
            let (set, is) = number.compare_and_set(was.to_string(), new.to_string(), true).await?;
            if set {
                return Ok(new);
            }
            was = read(number, is)?;
        }
        Err(AtomicError::Contended { name: number.name.clone() })
    }
}

/// A number that was told as text.
pub(crate) fn read(number: &Number, text: String) -> Result<i64, AtomicError> {
    let unfit = |_| AtomicError::NotANumber {
        name: number.name.clone(),
        expected: "a whole number from -2^63 to 2^63 - 1",
        got: text.chars().take(64).collect(),
    };
    text.parse().map_err(unfit)
}

impl std::fmt::Debug for AtomicLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.0.as_ref().map(|shared| &shared.number);
        let mut shown = f.debug_struct("AtomicLong");
        shown.field("name", &number.map(|number| &number.name));
        shown.field("exactly_once", &number.is_ok_and(|number| number.once)).finish_non_exhaustive()
    }
}
