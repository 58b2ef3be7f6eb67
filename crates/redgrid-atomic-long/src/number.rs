//! What all numbers have in common: a client, a name, and how their scripts are sent.

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::name::InvalidName;
use redgrid_core::{Client, FromReply, Name, OnceRequest, OnceScript, Request, ServerError};

use crate::error::AtomicError;

static COMPARE_AND_SET: OnceScript<1> = OnceScript::new(
    "atomic/compare_and_set",
    concat!(include_str!("scripts/integers.lua"), include_str!("scripts/compare_and_set.lua")),
);
static REPLACE_IF: OnceScript<1> = OnceScript::new(
    "atomic/replace_if",
    concat!(include_str!("scripts/integers.lua"), include_str!("scripts/replace_if.lua")),
);
static GET_AND_SET: OnceScript<1> = OnceScript::new(
    "atomic/get_and_set",
    concat!(include_str!("scripts/integers.lua"), include_str!("scripts/get_and_set.lua")),
);
static ADD: OnceScript<1> =
    OnceScript::new("atomic/add", concat!(include_str!("scripts/integers.lua"), include_str!("scripts/add.lua")));

/// A number on the server.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) client: Client,
    pub(crate) name: Name,
    pub(crate) key: Bytes,
    /// Whether a change is sent again after a lost answer.
    pub(crate) once: bool,
}

/// What an addition within bounds did.
pub(crate) enum Added {
    /// The number as it is now.
    To(String),
    OutOfBounds(String),
}

/// How an addition is bounded, and what becomes of the lifetime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) least: Option<String>,
    pub(crate) most: Option<String>,
    pub(crate) clamps: bool,
    /// In milliseconds; 0 ends it.
    pub(crate) lifetime: Option<i64>,
}

impl Number {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = Name::new(name)?;
        Ok(Number { client: client.clone(), key: client.key(&name), name, once: false })
    }

    pub(crate) fn failed(&self, source: ServerError) -> AtomicError {
        AtomicError::of(&self.name, source)
    }

    /// The text under the name.
    pub(crate) async fn text(&self) -> Result<Option<String>, AtomicError> {
        let request = Request::command("GET").key(self.key.clone()).idempotent();
        self.client.run(request).await.map_err(|source| self.failed(source))
    }

    pub(crate) async fn set(&self, new: String) -> Result<(), AtomicError> {
        if self.once {
            return self.get_and_set(Some(new)).await.map(drop);
        }
        // Sent twice, it would undo what came between.
        self.command("SET", new, self.until()).await.map_err(|source| self.failed(source))
    }

    /// Sets it, or deletes it; tells what it was.
    pub(crate) async fn get_and_set(&self, new: Option<String>) -> Result<String, AtomicError> {
        let request = GET_AND_SET.with([self.key.clone()]).arg(new.unwrap_or_default());
        let [was] = self.ask(request).await?;
        Ok(was)
    }

    /// Whether it was as expected, and what it was.
    pub(crate) async fn compare_and_set(
        &self,
        expected: String,
        new: String,
        keeps_lifetime: bool,
    ) -> Result<(bool, String), AtomicError> {
        let request = COMPARE_AND_SET.with([self.key.clone()]).arg(expected).arg(new);
        let [set, was] = self.ask(request.int(keeps_lifetime.into())).await?;
        Ok((set == "1", was))
    }

    /// Sets or deletes it if it compares as said; tells whether it did.
    pub(crate) async fn replace_if(
        &self,
        how: &'static str,
        to: String,
        new: Option<String>,
    ) -> Result<bool, AtomicError> {
        let request = REPLACE_IF.with([self.key.clone()]).arg(how).arg(to).arg(new.unwrap_or_default());
        let [done] = self.ask(request).await?;
        Ok(done == "1")
    }

    pub(crate) async fn add(&self, by: String, terms: &Terms, until: Instant) -> Result<Added, ServerError> {
        let text = |bound: &Option<String>| bound.clone().unwrap_or_default();
        let request = ADD.with([self.key.clone()]).arg(by).arg(text(&terms.least)).arg(text(&terms.most));
        let lifetime = terms.lifetime.map(|millis| millis.to_string()).unwrap_or_default();
        let [status, number] = self.run(request.int(terms.clamps.into()).arg(lifetime), until).await?;
        Ok(if status == "0" { Added::OutOfBounds(number) } else { Added::To(number) })
    }

    async fn ask<const N: usize>(&self, request: OnceRequest) -> Result<[String; N], AtomicError> {
        self.run(request, self.until()).await.map_err(|source| self.failed(source))
    }

    /// Until when what is asked now is tried.
    pub(crate) fn until(&self) -> Instant {
        self.client.clock().now() + self.client.patience()
    }

    async fn run<const N: usize>(&self, request: OnceRequest, until: Instant) -> Result<[String; N], ServerError> {
        let parts: Vec<String> = match self.once {
            true => self.client.run_once_until(request, until).await?,
            false => self.client.run_unremembered(request, until).await?,
        };
        let unexpected =
            |parts| ServerError::Decode { expected: "an answer about a number", got: format!("{parts:?}") };
        parts.try_into().map_err(unexpected)
    }

    /// One command of the server that answers with a number, sent once.
    pub(crate) async fn command<T: FromReply>(
        &self,
        name: &'static str,
        arg: String,
        until: Instant,
    ) -> Result<T, ServerError> {
        self.client.run_until(Request::command(name).key(self.key.clone()).arg(arg), until).await
    }
}
