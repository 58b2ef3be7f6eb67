//! What a pool says to the server, and its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::stock::{Leased, PermitId, millis};
use crate::connection::{Core, Reply, Request};
use crate::error::ServerError;
use crate::exactly_once::{self, IdempotentScript};
use crate::lock::{LeaseMode, with_margin};
use crate::name::{InvalidName, Name, companion, suffixed};

static EXCHANGE: IdempotentScript<2> = IdempotentScript::new("permits/exchange", include_str!("scripts/exchange.lua"));
/// The same with the line of a fair one: what is not declared is not there, and a slot that moves has no use for absent keys.
static IN_LINE: IdempotentScript<4> = IdempotentScript::new("permits/exchange", include_str!("scripts/exchange.lua"));

/// How long a client with a place in a line is believed to live without a word: 3 s. It has its say each second.
pub(super) const ALIVE: Duration = Duration::from_secs(3);

/// A semaphore: its name, its keys and its channel, which are Redisson's, and what kind of permits it gives.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name.
    pub name: Name,
    /// How many permits are left.
    pub key: Bytes,
    /// Each permit with a lease, by its end.
    pub leases: Bytes,
    /// Where those who wait are told.
    pub channel: Bytes,
    /// Whether permits have leases.
    pub leased: bool,
    /// Whether those who wait in several processes are served in the order of asking.
    pub fair: bool,
    line: Bytes,
    living: Bytes,
}

impl Source {
    /// The semaphore with this name, behind the client's namespace.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] tells the rule that is broken.
    pub fn new(client: &crate::Client, name: impl AsRef<str>, leased: bool) -> Result<Source, InvalidName> {
        let name = Name::new(name)?;
        let key = client.key(&name);
        Ok(Source {
            leases: suffixed(&key, "timeout"),
            channel: companion("redisson_sc", &key),
            line: companion("redgrid_semaphore_line", &key),
            living: companion("redgrid_semaphore_living", &key),
            leased,
            fair: false,
            name,
            key,
        })
    }

    /// The name of its pool's memory: pools of different kinds ask beside each other.
    fn memory(&self) -> &'static str {
        match (self.leased, self.fair) {
            (true, true) => "leased-fair",
            (true, false) => "leased",
            (false, true) => "fair",
            (false, false) => "plain",
        }
    }

    /// What it is called in metrics and spans.
    pub(super) fn kind(&self) -> &'static str {
        if self.leased { "leased_semaphore" } else { "semaphore" }
    }
}

/// One request in an exchange.
pub(super) struct Asked {
    /// Its number in the pool.
    pub(super) id: u64,
    pub(super) n: u64,
    /// Its place in the line, where it has one.
    pub(super) place: Bytes,
    pub(super) lease: Option<LeaseMode>,
    pub(super) ids: Vec<PermitId>,
}

/// A lease that an exchange looks at.
pub(super) struct Looked {
    pub(super) leased: Arc<Leased>,
    /// The lease from now on; zero only looks.
    pub(super) lease: Duration,
    /// It is to end then, and not only no earlier.
    pub(super) exactly: bool,
    /// How often it had been shortened when it was asked about.
    pub(super) shortened: u64,
}

/// All that a pool says at once.
#[derive(Default)]
pub(super) struct Words {
    pub(super) capacity: Option<u64>,
    pub(super) returned: u64,
    pub(super) back: Vec<PermitId>,
    pub(super) looked: Vec<Looked>,
    pub(super) gone: Vec<Bytes>,
    pub(super) asked: Vec<Asked>,
}

impl Words {
    pub(super) fn request(&self, core: &Core, source: &Source, number: u64) -> Request {
        let Source { key, leases, line, living, .. } = source;
        let text = |n: u64| n.to_string();
        let call = match source.fair {
            true => IN_LINE.with([key.clone(), leases.clone(), line.clone(), living.clone()]),
            false => EXCHANGE.with([key.clone(), leases.clone()]),
        };
        let mut call = call
            .publish_here()
            .arg(source.channel.clone())
            .arg(self.capacity.map(text).unwrap_or_default())
            .arg(text(self.returned));
        for n in [self.back.len(), self.looked.len(), self.gone.len()] {
            call = call.arg(n.to_string());
        }
        call = call.arg(if source.fair { core.id.clone() } else { String::new() }).int(millis(ALIVE));
        for id in &self.back {
            call = call.arg(Bytes::copy_from_slice(id.as_bytes()));
        }
        for Looked { leased, lease, exactly, .. } in &self.looked {
            call = call.arg(Bytes::copy_from_slice(leased.id.as_bytes())).int(millis(*lease)).int((*exactly).into());
        }
        for place in &self.gone {
            call = call.arg(place.clone());
        }
        for asked in &self.asked {
            let lease = asked.lease.map_or(0, |lease| millis(on_server(lease)));
            call = call.arg(text(asked.n)).arg(asked.place.clone()).int(lease);
            for id in &asked.ids {
                call = call.arg(Bytes::copy_from_slice(id.as_bytes()));
            }
        }
        call.with_sequence(exactly_once::dedup_key(core, key, source.memory()), number, core.settings.response_timeout)
    }
}

/// The lease that the server writes: with a fixed one, so much that it is believed for as long as was asked for.
pub(super) fn on_server(lease: LeaseMode) -> Duration {
    match lease {
        LeaseMode::Renewed(lease) => lease,
        LeaseMode::Fixed(lease) => with_margin(lease),
    }
}

/// What the server said.
pub(super) struct Said {
    /// Of each request whether it was granted; nothing where no permits were ever set.
    pub(super) taken: Option<Vec<bool>>,
    /// How many permits are left; fewer than none where some were taken away that are held.
    pub(super) left: i64,
    /// Number of subscribers of what went back, where something did.
    pub(super) told: Option<u64>,
    /// The server refused to publish it.
    pub(super) refused: bool,
    /// When the first lease ends.
    pub(super) next: Option<Duration>,
    pub(super) back: Vec<bool>,
    pub(super) kept: Vec<bool>,
}

impl Said {
    pub(super) fn of(reply: Reply) -> Result<Said, ServerError> {
        let parts: Vec<Reply> = reply.into_typed()?;
        let expected = || ServerError::Decode { expected: "six values of an exchange of permits", got: String::new() };
        let [taken, left, told, next, back, kept] = <[Reply; 6]>::try_from(parts).map_err(|_| expected())?;
        let flags =
            |reply: Reply| reply.into_typed::<String>().map(|text| text.bytes().map(|flag| flag == b'1').collect());
        let (told, next) = (told.into_typed::<i64>()?, next.into_typed::<i64>()?);
        let taken = taken.into_typed::<String>()?;
        Ok(Said {
            taken: (taken != "-").then(|| taken.bytes().map(|flag| flag == b'1').collect()),
            left: left.into_typed()?,
            // -1: nothing was to be told. Below: the message was refused.
            told: u64::try_from(if told < -1 { -2 - told } else { told }).ok(),
            refused: told < -1,
            next: u64::try_from(next).ok().map(Duration::from_millis),
            back: flags(back)?,
            kept: flags(kept)?,
        })
    }
}
