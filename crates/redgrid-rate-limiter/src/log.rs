//! The sliding log of a limiter on the server.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::{Client, IdempotentRequest, IdempotentScript, Name, Request, ServerError};

use crate::keys::Keys;
use crate::rate::Rate;
use crate::reply::{LimiterReply, PermitRequest, unexpected, with_callers};
use crate::waiters::Limit;

macro_rules! log_script {
    ($name:literal) => {
        IdempotentScript::new(
            concat!("rate/", $name),
            concat!(include_str!("scripts/log.lua"), include_str!(concat!("scripts/", $name, ".lua"))),
        )
    };
}

static ACQUIRE: IdempotentScript<6> = log_script!("acquire");
static GIVE_BACK: IdempotentScript<6> = log_script!("give_back");
static RELEASE: IdempotentScript<6> = log_script!("release");
static SET: IdempotentScript<6> = IdempotentScript::new("rate/set", include_str!("scripts/set.lua"));
static LIFETIME: IdempotentScript<6> = IdempotentScript::new("rate/lifetime", include_str!("scripts/lifetime.lua"));

/// A sliding log in Redisson's format.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) keys: Keys,
}

/// An entry of the log, from which its permits can be given back.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    id: Bytes,
    score: String,
}

/// When a rate is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetMode {
    IfUnset,
    Always,
    IfSet,
}

/// A change of a limiter's lifetime.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SetLifetime {
    Delete,
    ExpireIn(Duration),
    Persist,
}

impl Log {
    /// Reads the state of the log, and removes expired entries.
    pub(crate) async fn state(&self, client: &Client) -> Result<Option<LimiterReply>, ServerError> {
        let until = client.clock().now() + client.patience();
        loop {
            let reply = self.acquire(client, &[], until).await?;
            if reply.as_ref().is_none_or(|reply| !reply.ask_again) {
                return Ok(reply);
            }
        }
    }

    /// Gives back permits of an entry. Returns how many are free again; `None` if no rate is set.
    pub(crate) async fn release_entry(
        &self,
        client: &Client,
        entry: &Entry,
        permits: u64,
    ) -> Result<Option<u64>, ServerError> {
        let request = GIVE_BACK.with(self.keys.all.clone()).arg(entry.id.clone()).arg(entry.score.clone());
        let request = request.arg(permits.to_string()).publish_arg().arg(self.keys.channel.clone());
        Ok(numbers::<1>(client.run_exactly_once(request).await?)?.map(|[given]| given))
    }

    /// Gives back the oldest permits. Returns how many are free again, and how many had expired;
    /// `None` if no rate is set.
    pub(crate) async fn release_oldest(
        &self,
        client: &Client,
        permits: u64,
    ) -> Result<Option<(u64, u64)>, ServerError> {
        let request = RELEASE.with(self.keys.all.clone()).arg(permits.to_string());
        let request = request.publish_arg().arg(self.keys.channel.clone());
        Ok(numbers::<2>(client.run_exactly_once(request).await?)?.map(|[given, expired]| (given, expired)))
    }

    /// Sets the rate. Returns whether it did.
    pub(crate) async fn set(
        &self,
        client: &Client,
        rate: &Rate,
        mode: SetMode,
        keeps_state: bool,
    ) -> Result<bool, ServerError> {
        let fields = rate.fields().into_iter();
        let request = fields.fold(SET.with(self.keys.all.clone()), IdempotentRequest::arg);
        let mode = match mode {
            SetMode::IfUnset => "try",
            SetMode::Always => "set",
            SetMode::IfSet => "update",
        };
        let request = request.arg(mode).int(keeps_state.into()).publish_arg().arg(self.keys.channel.clone());
        done(client.run_exactly_once(request).await?)
    }

    /// Changes the lifetime of all keys. Returns whether it did.
    pub(crate) async fn set_lifetime(&self, client: &Client, change: SetLifetime) -> Result<bool, ServerError> {
        let what = match change {
            SetLifetime::Delete => "delete".into(),
            SetLifetime::ExpireIn(lifetime) => lifetime.as_millis().to_string(),
            SetLifetime::Persist => "persist".into(),
        };
        let request = LIFETIME.with(self.keys.all.clone()).arg(what).publish_arg().arg(self.keys.channel.clone());
        done(client.run_exactly_once(request).await?)
    }

    /// Reads the rate; `None` if none is set.
    pub(crate) async fn rate(&self, client: &Client) -> Result<Option<Rate>, ServerError> {
        let fields = ["rate", "interval", "type", "keepAliveTime"];
        let request = fields.into_iter().fold(Request::command("HMGET").key(self.keys.config().clone()), Request::arg);
        let fields: Vec<Option<String>> = client.run(request.idempotent()).await?;
        Rate::read(&fields).map_err(|got| ServerError::Decode { expected: "a rate", got })
    }
}

impl Limit for Log {
    type Entry = Entry;
    /// Redisson publishes nothing.
    const CHANGES_ARE_PUBLISHED: bool = false;

    fn name(&self) -> &Name {
        &self.keys.name
    }

    fn key(&self) -> &Bytes {
        self.keys.config()
    }

    fn channel(&self) -> &Bytes {
        &self.keys.channel
    }

    async fn acquire(
        &self,
        client: &Client,
        callers: &[PermitRequest],
        until: Instant,
    ) -> Result<Option<LimiterReply>, ServerError> {
        let id = fastrand::u128(..).to_be_bytes();
        let request = with_callers(ACQUIRE.with(self.keys.all.clone()).arg(id.to_vec()), callers);
        let reply: Vec<String> = client.run_exactly_once_until(request, until).await?;
        Ok(LimiterReply::read(&reply, callers.len())?.map(|reply| LimiterReply { id, ..reply }))
    }

    /// The script replaces the last two bytes of the request's id by the number of the entry.
    fn entry(&self, reply: &LimiterReply, number: usize) -> Option<Entry> {
        let bytes = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        let id = [&reply.id[..14], &bytes].concat().into();
        let score = number.checked_sub(1).and_then(|index| reply.scores.get(index)).cloned().unwrap_or_default();
        Some(Entry { id, score })
    }

    async fn give_back(&self, client: &Client, entry: Entry, permits: u64) {
        // After an error, the permits count until they expire.
        let _ = self.release_entry(client, &entry, permits).await;
    }
}

/// Reads the numbers after the status; `None` if no rate is set.
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

/// Reads whether a change was made.
fn done(parts: Vec<String>) -> Result<bool, ServerError> {
    match parts.first().map(String::as_str) {
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        _ => Err(unexpected(&parts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_its_contract() {
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
    fn replies_are_read() {
        let parts = |parts: &[&str]| parts.iter().map(|part| part.to_string()).collect::<Vec<_>>();
        assert_eq!(numbers::<2>(parts(&["1", "3", "4"])).unwrap(), Some([3, 4]));
        assert_eq!(numbers::<1>(parts(&["0"])).unwrap(), None);
        assert!(numbers::<1>(parts(&["1"])).is_err() && numbers::<1>(parts(&["1", "x"])).is_err());
        assert!(done(parts(&["1"])).unwrap() && !done(parts(&["0"])).unwrap() && done(parts(&[])).is_err());
    }
}
