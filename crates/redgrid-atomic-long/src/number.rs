//! What all numbers have in common: a client, a name, and how their scripts are sent.

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, FromReply, IdempotentRequest, Name, Request, ServerError};

use crate::error::AtomicError;
use crate::numeral::{Numeral, Scripts};

/// A number on the server, as text.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) key: Bytes,
    /// Whether a change is sent again after a lost answer.
    pub(crate) once: bool,
    pub(crate) scripts: &'static Scripts,
}

/// What an addition did.
pub(crate) struct Added {
    /// Whether it was within the bounds; else nothing is done.
    pub(crate) within: bool,
    /// The number as it is now.
    pub(crate) now: String,
}

/// How an addition is bounded, and what becomes of the lifetime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) least: Option<String>,
    pub(crate) most: Option<String>,
    pub(crate) clamps: bool,
    /// In milliseconds; 0 ends it.
    pub(crate) lifetime: Option<i64>,
    /// A lifetime that there is stays.
    pub(crate) if_none: bool,
}

impl Number {
    pub(crate) fn new<T: Numeral>(client: &Client, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        Ok(Number { client: client.clone(), key: client.key(&name), name, once: false, scripts: T::scripts() })
    }

    pub(crate) fn failed(&self, source: ServerError) -> AtomicError {
        AtomicError::of(&self.name, source)
    }

    /// What is under the name, read as a number; an absent one is 0.
    pub(crate) async fn get<T: Numeral>(&self, until: Instant) -> Result<T, AtomicError> {
        let request = Request::command("GET").key(self.key.clone()).idempotent();
        let text: Option<String> = self.client.run_until(request, until).await.map_err(|source| self.failed(source))?;
        text.map_or(Ok(T::ZERO), |text| self.read(&text))
    }

    /// A number that was told as text.
    pub(crate) fn read<T: Numeral>(&self, text: &str) -> Result<T, AtomicError> {
        parsed(text).map_err(|source| self.failed(source))
    }

    /// The text of a number that is to be sent.
    pub(crate) fn written<T: Numeral>(&self, option: &'static str, value: T) -> Result<String, AtomicError> {
        value.written().ok_or_else(|| self.invalid(option, T::EXPECTED, format!("{value:?}")))
    }

    /// Whether it is a number that may be sent, before it is written.
    pub(crate) fn checked<T: Numeral>(&self, option: &'static str, value: T) -> Result<(), AtomicError> {
        match value.is_number() {
            true => Ok(()),
            false => Err(self.invalid(option, T::EXPECTED, format!("{value:?}"))),
        }
    }

    pub(crate) fn invalid(&self, option: &'static str, expected: &'static str, got: String) -> AtomicError {
        AtomicError::InvalidArgument { name: self.name.clone(), option, expected, got }
    }

    /// Why `by` was not added.
    pub(crate) fn not_added<T: Numeral>(&self, by: T, error: ServerError) -> AtomicError {
        match error.is_overflow() {
            true => AtomicError::Overflow { name: self.name.clone(), by: by.value() },
            false => self.failed(error),
        }
    }

    pub(crate) async fn set(&self, new: String) -> Result<(), AtomicError> {
        if self.once {
            return self.replace(Some(new), true).await.map(drop);
        }
        // Sent twice, it would undo what came between.
        let set = self.command("SET", new, self.until()).await;
        set.map_err(|source| self.failed(source))
    }

    /// Sets it, or deletes it; tells whether it was there, and what it was. What is no number is replaced where it may be `any`.
    pub(crate) async fn replace(&self, new: Option<String>, any: bool) -> Result<(bool, String), AtomicError> {
        let request = self.scripts.get_and_set.with([self.key.clone()]).arg(new.unwrap_or_default());
        let [there, was] = self.ask(request.int(any.into()), self.until()).await?;
        Ok((there == "1", was))
    }

    pub(crate) async fn delete(&self) -> Result<bool, AtomicError> {
        if self.once {
            return self.replace(None, true).await.map(|(there, _)| there);
        }
        let deleted = self.client.run(Request::command("DEL").key(self.key.clone())).await;
        deleted.map_err(|source| self.failed(source))
    }

    /// Whether it was as expected, and what it was.
    pub(crate) async fn compare_and_set(
        &self,
        (expected, new): (String, String),
        keeps_lifetime: bool,
        until: Instant,
    ) -> Result<(bool, String), AtomicError> {
        let request = self.scripts.compare_and_set.with([self.key.clone()]).arg(expected).arg(new);
        let [set, was] = self.ask(request.int(keeps_lifetime.into()), until).await?;
        Ok((set == "1", was))
    }

    /// Sets or deletes it if it compares as said; tells whether it did.
    pub(crate) async fn replace_if(
        &self,
        how: &'static str,
        to: String,
        new: Option<String>,
    ) -> Result<bool, AtomicError> {
        let request = self.scripts.replace_if.with([self.key.clone()]).arg(how).arg(to).arg(new.unwrap_or_default());
        let [done] = self.ask(request, self.until()).await?;
        Ok(done == "1")
    }

    pub(crate) async fn add(&self, by: String, terms: Terms) -> Result<Added, ServerError> {
        let [least, most] = [terms.least, terms.most].map(Option::unwrap_or_default);
        let request = self.scripts.add.with([self.key.clone()]).arg(by).arg(least).arg(most);
        let lifetime = terms.lifetime.map(|millis| millis.to_string()).unwrap_or_default();
        let [status, now] = exactly(
            self.run(request.int(terms.clamps.into()).arg(lifetime).int(terms.if_none.into()), self.until()).await?,
        )?;
        Ok(Added { within: status != "0", now })
    }

    /// Adds one after the other: the number before, and after each, empty where that was refused as too much.
    pub(crate) async fn add_each(&self, by: &[String], until: Instant) -> Result<Vec<String>, ServerError> {
        let request = self.scripts.add_each.with([self.key.clone()]);
        self.run(by.iter().fold(request, |request, by| request.arg(by.clone())), until).await
    }

    async fn ask<const N: usize>(
        &self,
        request: IdempotentRequest,
        until: Instant,
    ) -> Result<[String; N], AtomicError> {
        let parts = self.run(request, until).await.and_then(exactly);
        parts.map_err(|source| self.failed(source))
    }

    async fn run(&self, request: IdempotentRequest, until: Instant) -> Result<Vec<String>, ServerError> {
        match self.once {
            true => self.client.run_exactly_once_until(request, until).await,
            false => self.client.run_at_most_once(request, until).await,
        }
    }

    /// One command of the server with a number, sent once.
    pub(crate) async fn command<T: FromReply>(
        &self,
        name: &'static str,
        arg: String,
        until: Instant,
    ) -> Result<T, ServerError> {
        self.client.run_until(Request::command(name).key(self.key.clone()).arg(arg), until).await
    }

    /// When a call that begins now ends at the latest.
    pub(crate) fn until(&self) -> Instant {
        self.client.clock().now() + self.client.patience()
    }
}

/// A number that was told as text.
pub(crate) fn parsed<T: Numeral>(text: &str) -> Result<T, ServerError> {
    let unfit = || ServerError::Decode { expected: T::EXPECTED, got: text.chars().take(64).collect() };
    T::read(text).ok_or_else(unfit)
}

fn exactly<const N: usize>(parts: Vec<String>) -> Result<[String; N], ServerError> {
    let unexpected = |parts| ServerError::Decode { expected: "an answer about a number", got: format!("{parts:?}") };
    parts.try_into().map_err(unexpected)
}
