//! The log of a limiter on the server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, IdempotentRequest, IdempotentScript, Name, Request, ServerError};

use crate::error::LimitError;
use crate::keys::Keys;
use crate::queue::Limit;
use crate::rate::Rate;
use crate::told::{Told, Wish};

macro_rules! on_the_log {
    ($name:literal) => {
        IdempotentScript::new(
            concat!("rate/", $name),
            concat!(include_str!("scripts/log.lua"), include_str!(concat!("scripts/", $name, ".lua"))),
        )
    };
}

static ACQUIRE: IdempotentScript<6> = on_the_log!("acquire");
static GIVE_BACK: IdempotentScript<6> = on_the_log!("give_back");
static RELEASE: IdempotentScript<6> = on_the_log!("release");
static SET: IdempotentScript<6> = IdempotentScript::new("rate/set", include_str!("scripts/set.lua"));
static LIFETIME: IdempotentScript<6> = IdempotentScript::new("rate/lifetime", include_str!("scripts/lifetime.lua"));

/// A sliding log in Redisson's format.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) keys: Arc<Keys>,
}

/// An entry of the log, by which what it has taken can be given back.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    id: Bytes,
    score: String,
}

/// When a rate is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Try,
    Set,
    Update,
}

/// What ends a limiter, or does not.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ends {
    Now,
    In(Duration),
    Never,
}

impl Log {
    /// Asks with nobody waiting: what is over goes back.
    pub(crate) async fn look(&self, client: &Client) -> Result<Option<Told>, ServerError> {
        let until = client.clock().now() + client.patience();
        loop {
            let told = self.ask(client, &[], until).await?;
            if told.as_ref().is_none_or(|told| !told.again) {
                return Ok(told);
            }
        }
    }

    /// How many of an entry are free again; none where no rate is set.
    pub(crate) async fn take_back(
        &self,
        client: &Client,
        entry: &Entry,
        permits: u64,
    ) -> Result<Option<u64>, ServerError> {
        let request = GIVE_BACK.with(self.keys.all.clone()).arg(entry.id.clone()).arg(entry.score.clone());
        let request = request.arg(permits.to_string()).publish_arg().arg(self.keys.channel.clone());
        Ok(numbers::<1>(client.run_exactly_once(request).await?)?.map(|[given]| given))
    }

    /// How many of the oldest are free again, and how many were over; none where no rate is set.
    pub(crate) async fn release(&self, client: &Client, permits: u64) -> Result<Option<(u64, u64)>, ServerError> {
        let request = RELEASE.with(self.keys.all.clone()).arg(permits.to_string());
        let request = request.publish_arg().arg(self.keys.channel.clone());
        Ok(numbers::<2>(client.run_exactly_once(request).await?)?.map(|[given, over]| (given, over)))
    }

    pub(crate) async fn set(&self, client: &Client, rate: &Rate, mode: Mode, keeps: bool) -> Result<bool, ServerError> {
        let fields = rate.fields().into_iter();
        let request = fields.fold(SET.with(self.keys.all.clone()), IdempotentRequest::arg);
        let mode = match mode {
            Mode::Try => "try",
            Mode::Set => "set",
            Mode::Update => "update",
        };
        let request = request.arg(mode).int(keeps.into()).publish_arg().arg(self.keys.channel.clone());
        done(client.run_exactly_once(request).await?)
    }

    pub(crate) async fn end(&self, client: &Client, ends: Ends) -> Result<bool, ServerError> {
        let what = match ends {
            Ends::Now => "delete".into(),
            Ends::In(lifetime) => lifetime.as_millis().to_string(),
            Ends::Never => "persist".into(),
        };
        let request = LIFETIME.with(self.keys.all.clone()).arg(what).publish_arg().arg(self.keys.channel.clone());
        done(client.run_exactly_once(request).await?)
    }

    pub(crate) async fn rate(&self, client: &Client) -> Result<Option<Rate>, ServerError> {
        let fields = ["rate", "interval", "type", "keepAliveTime"];
        let request = fields.into_iter().fold(Request::command("HMGET").key(self.keys.config().clone()), Request::arg);
        let fields: Vec<Option<String>> = client.run(request.idempotent()).await?;
        Rate::read(&fields).map_err(|got| ServerError::Decode { expected: "a rate", got })
    }

    pub(crate) fn failed(&self, client: &Client, source: ServerError) -> LimitError {
        LimitError::of(client, &self.keys.name, source)
    }

    pub(crate) fn not_set(&self) -> LimitError {
        LimitError::RateNotSet { name: self.keys.name.clone() }
    }
}

impl Limit for Log {
    /// The id of the request, and the score.
    type Entry = Entry;
    /// Redisson tells nobody.
    const IS_TOLD: bool = false;

    fn name(&self) -> &Name {
        &self.keys.name
    }

    fn place(&self) -> (&Bytes, &Bytes) {
        (self.keys.config(), &self.keys.channel)
    }

    async fn ask(&self, client: &Client, wishes: &[Wish], until: Instant) -> Result<Option<Told>, ServerError> {
        let id = fastrand::u128(..).to_be_bytes();
        let request = asking(ACQUIRE.with(self.keys.all.clone()).arg(id.to_vec()), wishes);
        let told = Told::read(&client.run_exactly_once_until::<Vec<String>>(request, until).await?)?;
        // The entries are known by it.
        Ok(told.map(|told| Told { id, ..told }))
    }

    fn entry(&self, told: &Told, entry: usize) -> Option<Entry> {
        let number = u16::try_from(entry).unwrap_or(u16::MAX).to_be_bytes();
        let id = [&told.id[..14], &number].concat().into();
        let score = entry.checked_sub(1).and_then(|at| told.scores.get(at)).cloned().unwrap_or_default();
        Some(Entry { id, score })
    }

    async fn give_back(&self, client: &Client, entry: Entry, permits: u64) {
        // They count until they are over.
        let _ = self.take_back(client, &entry, permits).await;
    }
}

/// Adds those who ask.
pub(crate) fn asking(request: IdempotentRequest, wishes: &[Wish]) -> IdempotentRequest {
    wishes.iter().fold(request, |request, wish| {
        let ahead = i64::try_from(wish.ahead.as_millis()).unwrap_or(i64::MAX);
        request.arg(wish.permits.to_string()).int(ahead).int(wish.waits.into())
    })
}

/// The numbers behind a status; none where no rate is set.
fn numbers<const N: usize>(parts: Vec<String>) -> Result<Option<[u64; N]>, ServerError> {
    if parts == ["0"] {
        return Ok(None);
    }
    let read = || {
        let numbers: Vec<u64> = parts.iter().skip(1).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        numbers.try_into().ok()
    };
    read().map(Some).ok_or_else(|| unexpected(&parts))
}

fn done(parts: Vec<String>) -> Result<bool, ServerError> {
    match parts.first().map(String::as_str) {
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        _ => Err(unexpected(&parts)),
    }
}

fn unexpected(parts: &[String]) -> ServerError {
    ServerError::Decode { expected: "an answer of a limiter", got: format!("{parts:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_tells_its_contract() {
        for (name, text) in [
            ("acquire", include_str!("scripts/acquire.lua")),
            ("give_back", include_str!("scripts/give_back.lua")),
            ("release", include_str!("scripts/release.lua")),
            ("set", include_str!("scripts/set.lua")),
            ("lifetime", include_str!("scripts/lifetime.lua")),
            ("gcra", include_str!("scripts/gcra.lua")),
            ("reset", include_str!("scripts/reset.lua")),
        ] {
            for part in ["-- ARGV", "-- Returns", "-- Work:", "ent twice"] {
                assert!(text.contains(part), "{name}: {part}");
            }
        }
    }

    #[test]
    fn answers_are_read() {
        let parts = |parts: &[&str]| parts.iter().map(|part| part.to_string()).collect::<Vec<_>>();
        assert_eq!(numbers::<2>(parts(&["1", "3", "4"])).unwrap(), Some([3, 4]));
        assert_eq!(numbers::<1>(parts(&["0"])).unwrap(), None);
        assert!(numbers::<1>(parts(&["1"])).is_err() && numbers::<1>(parts(&["1", "x"])).is_err());
        assert!(done(parts(&["1"])).unwrap() && !done(parts(&["0"])).unwrap() && done(parts(&[])).is_err());
    }
}
