//! A floating point number that all processes share.

use redgrid_core::name::InvalidName;
use redgrid_core::{Client, Request, ServerError};

use crate::error::AtomicError;
use crate::number::Number;

/// A floating point number, shared by all processes that reach the same server. Redisson's `RAtomicDouble` on the wire.
///
/// Cheap to clone; clones are the same number. A number that is absent is 0. The server adds with more digits than a double has;
/// what is read is the nearest double. Additions of several tasks leave one by one, as sums of doubles depend on their order.
#[doc(alias = "RAtomicDouble")]
#[doc(alias = "RedissonAtomicDouble")]
#[derive(Clone)]
pub struct AtomicDouble(Result<Number, InvalidName>);

impl AtomicDouble {
    /// The number with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        AtomicDouble(Number::new(client, name))
    }

    fn number(&self) -> Result<&Number, AtomicError> {
        self.0.as_ref().map_err(|invalid| invalid.clone().into())
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
    pub async fn get(&self) -> Result<f64, AtomicError> {
        let number = self.number()?;
        number.text().await?.map_or(Ok(0.0), |text| read(number, text))
    }

    /// Sets it, without a lifetime.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then; numbers that are not finite are refused.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn set(&self, new: f64) -> Result<(), AtomicError> {
        let number = self.number()?;
        number.set(text(number, "number", new)?).await
    }

    /// Adds `by`; tells what it is then.
    ///
    /// # Errors
    ///
    /// [`AtomicError`] says what is true then; numbers that are not finite are refused.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addAndGet")]
    #[doc(alias = "incrementAndGet")]
    pub async fn add(&self, by: f64) -> Result<f64, AtomicError> {
        let number = self.number()?;
        let by = text(number, "summand", by)?;
        match number.command::<String>("INCRBYFLOAT", by.clone(), number.until()).await {
            Ok(now) => read(number, now),
            Err(error) if error.is_overflow() => Err(AtomicError::Overflow { name: number.name.clone(), by }),
            Err(error) => Err(number.failed(error)),
        }
    }

    /// Sets it, without a lifetime; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`AtomicDouble::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`AtomicDouble::set`].
    #[doc(alias = "getAndSet")]
    pub async fn get_and_set(&self, new: f64) -> Result<f64, AtomicError> {
        let number = self.number()?;
        read(number, number.get_and_set(Some(text(number, "number", new)?)).await?)
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
    pub async fn get_and_delete(&self) -> Result<f64, AtomicError> {
        let number = self.number()?;
        read(number, number.get_and_set(None).await?)
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
        let request = Request::command("DEL").key(number.key.clone());
        number.client.run(request).await.map_err(|source: ServerError| number.failed(source))
    }
}

/// A number as the server reads it.
fn text(number: &Number, option: &'static str, value: f64) -> Result<String, AtomicError> {
    match value.is_finite() {
        true => Ok(value.to_string()),
        false => Err(AtomicError::InvalidArgument {
            name: number.name.clone(),
            option,
            expected: "a finite number",
            got: value.to_string(),
        }),
    }
}

fn read(number: &Number, text: String) -> Result<f64, AtomicError> {
    let unfit = |_| AtomicError::NotANumber {
        name: number.name.clone(),
        expected: "a floating point number",
        got: text.chars().take(64).collect(),
    };
    text.parse().map_err(unfit)
}

impl std::fmt::Debug for AtomicDouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtomicDouble")
            .field("name", &self.0.as_ref().map(|number| &number.name))
            .finish_non_exhaustive()
    }
}
