//! The common part of all numbers: client, name, and how their scripts are sent.

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, Failure, FromReply, IdempotentRequest, Name, Request, ServerError};

use crate::atomic_number::{AtomicNumber, Scripts};
use crate::error::AtomicError;

/// A number on the server, as text.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) key: Bytes,
    /// Whether a change is sent again after a lost reply, and executed exactly once.
    pub(crate) exactly_once: bool,
    pub(crate) scripts: &'static Scripts,
}

/// The outcome of an addition.
pub(crate) struct AddOutcome {
    /// Whether the sum was within the bounds; otherwise nothing was changed.
    pub(crate) in_bounds: bool,
    /// The number afterwards.
    pub(crate) value: String,
}

/// The bounds of an addition, and the lifetime that it sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddOptions {
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    pub(crate) saturate: bool,
    /// In milliseconds; 0 removes the lifetime.
    pub(crate) lifetime: Option<i64>,
    /// Whether an existing lifetime is kept.
    pub(crate) only_if_none: bool,
}

impl Number {
    pub(crate) fn new<T: AtomicNumber>(client: &Client, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        Ok(Number { client: client.clone(), key: client.key(&name), name, exactly_once: false, scripts: T::scripts() })
    }

    pub(crate) fn error(&self, source: ServerError) -> AtomicError {
        AtomicError::of(&self.name, source)
    }

    /// Reads the number; an absent one is 0.
    pub(crate) async fn get<T: AtomicNumber>(&self, until: Instant) -> Result<T, AtomicError> {
        let request = Request::command("GET").key(self.key.clone()).idempotent();
        let text: Option<String> = self.client.run_until(request, until).await.map_err(|source| self.error(source))?;
        text.map_or(Ok(T::ZERO), |text| self.parse(&text))
    }

    /// Parses a number from a reply.
    pub(crate) fn parse<T: AtomicNumber>(&self, text: &str) -> Result<T, AtomicError> {
        parse_number(text).map_err(|source| self.error(source))
    }

    /// Returns the text of a number for a request.
    pub(crate) fn to_text<T: AtomicNumber>(&self, option: &'static str, value: T) -> Result<String, AtomicError> {
        value.to_text().ok_or_else(|| self.invalid(option, T::EXPECTED, format!("{value:?}")))
    }

    /// Checks whether the server accepts a value as a number, without formatting it.
    pub(crate) fn check<T: AtomicNumber>(&self, option: &'static str, value: T) -> Result<(), AtomicError> {
        if value.is_valid() { Ok(()) } else { Err(self.invalid(option, T::EXPECTED, format!("{value:?}"))) }
    }

    pub(crate) fn invalid(&self, option: &'static str, expected: &'static str, got: String) -> AtomicError {
        Failure::invalid_argument(&self.name, option, expected, got).into()
    }

    /// Returns the error of an addition of `by`.
    pub(crate) fn add_error<T: AtomicNumber>(&self, by: T, error: ServerError) -> AtomicError {
        if error.is_overflow() {
            AtomicError::Overflow { name: self.name.clone(), by: by.value() }
        } else {
            self.error(error)
        }
    }

    pub(crate) async fn set(&self, new: String) -> Result<(), AtomicError> {
        if self.exactly_once {
            return self.replace(Some(new), true).await.map(drop);
        }
        // Not idempotent: a second execution would undo changes that others made in between.
        let set = self.command("SET", new, self.deadline()).await;
        set.map_err(|source| self.error(source))
    }

    /// Sets the number, or deletes it without `new`. Returns whether it existed, and its previous
    /// text.
    ///
    /// With `any`, a value that is not a number is replaced, too.
    pub(crate) async fn replace(&self, new: Option<String>, any: bool) -> Result<(bool, String), AtomicError> {
        let request = self.scripts.get_and_set.with([self.key.clone()]).arg(new.unwrap_or_default());
        let [existed, previous] = self.run_fixed(request.int(any.into()), self.deadline()).await?;
        Ok((existed == "1", previous))
    }

    pub(crate) async fn delete(&self) -> Result<bool, AtomicError> {
        if self.exactly_once {
            return self.replace(None, true).await.map(|(existed, _)| existed);
        }
        let deleted = self.client.run(Request::command("DEL").key(self.key.clone())).await;
        deleted.map_err(|source| self.error(source))
    }

    /// Sets the number if it equals `expected`. Returns whether it did, and the previous text.
    pub(crate) async fn compare_and_set(
        &self,
        (expected, new): (String, String),
        keep_lifetime: bool,
        until: Instant,
    ) -> Result<(bool, String), AtomicError> {
        let request = self.scripts.compare_and_set.with([self.key.clone()]).arg(expected).arg(new);
        let [set, previous] = self.run_fixed(request.int(keep_lifetime.into()), until).await?;
        Ok((set == "1", previous))
    }

    /// Sets or deletes the number if the comparison holds. Returns whether it does.
    pub(crate) async fn replace_if(
        &self,
        comparison: &'static str,
        to: String,
        new: Option<String>,
    ) -> Result<bool, AtomicError> {
        let request =
            self.scripts.replace_if.with([self.key.clone()]).arg(comparison).arg(to).arg(new.unwrap_or_default());
        let [done] = self.run_fixed(request, self.deadline()).await?;
        Ok(done == "1")
    }

    pub(crate) async fn add(&self, by: String, options: AddOptions) -> Result<AddOutcome, ServerError> {
        let [min, max] = [options.min, options.max].map(Option::unwrap_or_default);
        let request = self.scripts.add.with([self.key.clone()]).arg(by).arg(min).arg(max);
        let lifetime = options.lifetime.map(|millis| millis.to_string()).unwrap_or_default();
        let request = request.int(options.saturate.into()).arg(lifetime).int(options.only_if_none.into());
        let [status, value] = into_array(self.run_script(request, self.deadline()).await?)?;
        Ok(AddOutcome { in_bounds: status != "0", value })
    }

    /// Adds several summands in order. Returns the number before, and the number after each; empty
    /// for a summand that was refused because of an overflow.
    pub(crate) async fn add_each(&self, by: &[String], until: Instant) -> Result<Vec<String>, ServerError> {
        let request = self.scripts.add_each.with([self.key.clone()]);
        self.run_script(by.iter().fold(request, |request, by| request.arg(by.clone())), until).await
    }

    /// Runs a script with a reply of `N` parts.
    async fn run_fixed<const N: usize>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<[String; N], AtomicError> {
        let parts = self.run_script(request, until).await.and_then(into_array);
        parts.map_err(|source| self.error(source))
    }

    async fn run_script(&self, request: IdempotentRequest, until: Instant) -> Result<Vec<String>, ServerError> {
        if self.exactly_once {
            self.client.run_exactly_once_until(request, until).await
        } else {
            self.client.run_at_most_once(request, until).await
        }
    }

    /// Sends a command with one argument, once.
    pub(crate) async fn command<T: FromReply>(
        &self,
        name: &'static str,
        arg: String,
        until: Instant,
    ) -> Result<T, ServerError> {
        self.client.run_until(Request::command(name).key(self.key.clone()).arg(arg), until).await
    }

    /// Returns the deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        self.client.clock().now() + self.client.patience()
    }
}

/// Parses a number from a reply.
pub(crate) fn parse_number<T: AtomicNumber>(text: &str) -> Result<T, ServerError> {
    let invalid = || ServerError::Decode { expected: T::EXPECTED, got: text.chars().take(64).collect() };
    T::parse(text).ok_or_else(invalid)
}

fn into_array<const N: usize>(parts: Vec<String>) -> Result<[String; N], ServerError> {
    let unexpected = |parts| ServerError::Decode { expected: "an answer about a number", got: format!("{parts:?}") };
    parts.try_into().map_err(unexpected)
}
