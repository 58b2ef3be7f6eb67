//! The request of an exchange, and its reply.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::{Core, Progress};
use redgrid_client::{Reply, Request, ServerError};

use super::permit_set::{PermitId, PermitLease, millis};
use super::semaphore_state::{Extension, PendingReturn};
use super::waiter::LocalRequest;
use crate::config::Durability;
use crate::exactly_once::{self, IdempotentScript};
use crate::lease::{LeaseMode, with_margin};
use crate::name::{InvalidName, Name, companion, suffixed};

static EXCHANGE: IdempotentScript<2> = IdempotentScript::new("permits/exchange", include_str!("scripts/exchange.lua"));
/// `EXCHANGE` with the keys of a fair semaphore's server queue. Exchanges of other semaphores do
/// not declare these keys, because the server may reject a request with absent keys while their
/// slot migrates.
static FAIR_EXCHANGE: IdempotentScript<4> =
    IdempotentScript::new("permits/exchange", include_str!("scripts/exchange.lua"));

/// How long a client with a position in a server queue counts as live after its last request for
/// permits: 3 s. Such a client sends a request at least every second.
pub(super) const CLIENT_TTL: Duration = Duration::from_secs(3);

/// The identity of a semaphore in a client: its key, whether its permits have leases, whether the
/// server queue is used, and the capacity of the handle.
pub(super) type SemaphoreId = (Bytes, bool, bool, Option<u64>);

/// The name, the keys, the channel and the kind of a semaphore.
///
/// Redisson uses the same keys for the number and the leases, and the same channel. It has no
/// server queue.
#[derive(Debug, Clone)]
pub struct SemaphoreKeys {
    /// The name.
    pub name: Name,
    /// The key that holds the number of available permits.
    pub key: Bytes,
    /// The sorted set of the leased permits, scored by the end of their leases.
    pub leases: Bytes,
    /// The channel on which the number of available permits is published.
    pub channel: Bytes,
    /// Whether permits have leases.
    pub leased: bool,
    /// Whether waiters of all processes are served in the order of their requests.
    pub fair: bool,
    /// The number of all permits, if the handle was created with a capacity. A semaphore that is
    /// created through this handle gets this number. A semaphore that has another number grants
    /// nothing to this handle.
    pub capacity: Option<u64>,
    /// The label `family` in metrics; empty by default.
    pub family: &'static str,
    server_queue: Bytes,
    live_clients: Bytes,
}

impl SemaphoreKeys {
    /// Creates the description of the semaphore with this name, inside the client's namespace.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] names the rule that is broken.
    pub fn new(client: &crate::Client, name: impl AsRef<str>, leased: bool) -> Result<SemaphoreKeys, InvalidName> {
        let name = Name::new(name)?;
        let key = client.key(&name);
        Ok(SemaphoreKeys {
            leases: suffixed(&key, "timeout"),
            channel: companion("redisson_sc", &key),
            server_queue: companion("redgrid_semaphore_line", &key),
            live_clients: companion("redgrid_semaphore_living", &key),
            leased,
            fair: false,
            capacity: None,
            family: "",
            name,
            key,
        })
    }

    /// Returns the identity of this semaphore among those of a client.
    pub(super) fn id(&self) -> SemaphoreId {
        (self.key.clone(), self.leased, self.fair, self.capacity)
    }

    /// Returns the suffix of the deduplication key.
    ///
    /// If two handles of one key have different suffixes, exchanges of both can be in flight at the
    /// same time.
    fn dedup_suffix(&self) -> String {
        let kind = match (self.leased, self.fair) {
            (true, true) => "leased-fair",
            (true, false) => "leased",
            (false, true) => "fair",
            (false, false) => "plain",
        };
        self.capacity.map_or_else(|| kind.to_owned(), |capacity| format!("{kind}-{capacity}"))
    }

    /// Returns the name of the semaphore's kind in metrics and spans.
    pub(super) fn kind(&self) -> &'static str {
        if self.leased { "leased_semaphore" } else { "semaphore" }
    }
}

/// A request for permits in an exchange.
pub(super) struct RequestArgs {
    pub(super) request: Arc<LocalRequest>,
    /// The position of the request in the server queue; empty if it has none.
    pub(super) position: Bytes,
    pub(super) ids: Vec<PermitId>,
}

/// The check or renewal of a lease in an exchange.
pub(super) struct LeaseCheck {
    pub(super) lease: Arc<PermitLease>,
    /// The length of the lease from now on. Zero means that the lease is only checked.
    pub(super) duration: Duration,
    /// True to set the end of the lease exactly, even if the end on the server is later; false to
    /// keep a later end.
    pub(super) exact: bool,
}

/// The contents of one exchange.
#[derive(Default)]
pub(super) struct Exchange {
    pub(super) returns: Vec<PendingReturn>,
    pub(super) checks: Vec<LeaseCheck>,
    pub(super) cancelled_positions: Vec<Bytes>,
    pub(super) requests: Vec<RequestArgs>,
    /// The durability of the requested permits.
    pub(super) durability: Durability,
    /// The extension that a caller has requested, if any. The last entries of `checks` are for its
    /// leases.
    pub(super) extension: Option<Extension>,
    /// Whether the hand-over window has ended while a request waits. If so, the exchange returns
    /// permits but requests none.
    pub(super) ends_window: bool,
    pub(super) progress: Arc<Progress>,
}

impl Exchange {
    /// Returns the ids of the returned permits with leases.
    pub(super) fn returned_ids(&self) -> impl Iterator<Item = PermitId> + '_ {
        self.returns.iter().flat_map(|pending| pending.permits.leases.iter().map(|lease| lease.id))
    }

    /// Returns the number of returned permits without leases.
    pub(super) fn returned_plain(&self) -> u64 {
        let plain = self.returns.iter().filter(|pending| pending.permits.leases.is_empty());
        plain.map(|pending| pending.permits.count).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.returns.is_empty()
            && self.checks.is_empty()
            && self.cancelled_positions.is_empty()
            && self.requests.is_empty()
    }

    pub(super) fn encode(&self, core: &Core, keys: &SemaphoreKeys, sequence: u64) -> Request {
        let SemaphoreKeys { key, leases, server_queue, live_clients, .. } = keys;
        let text = |n: u64| n.to_string();
        let call = match keys.fair {
            true => FAIR_EXCHANGE.with([key.clone(), leases.clone(), server_queue.clone(), live_clients.clone()]),
            false => EXCHANGE.with([key.clone(), leases.clone()]),
        };
        // Only an exchange with requests sets the number of permits.
        let capacity = keys.capacity.filter(|_| !self.requests.is_empty());
        let mut call = call
            .publish_arg()
            .arg(keys.channel.clone())
            .arg(capacity.map(text).unwrap_or_default())
            .arg(text(self.returned_plain()));
        for n in [self.returned_ids().count(), self.checks.len(), self.cancelled_positions.len()] {
            call = call.arg(n.to_string());
        }
        call = call.arg(if keys.fair { core.id.clone() } else { String::new() }).int(millis(CLIENT_TTL));
        for id in self.returned_ids() {
            call = call.arg(Bytes::copy_from_slice(id.as_bytes()));
        }
        for LeaseCheck { lease, duration, exact, .. } in &self.checks {
            call = call.arg(Bytes::copy_from_slice(lease.id.as_bytes())).int(millis(*duration)).int((*exact).into());
        }
        for position in &self.cancelled_positions {
            call = call.arg(position.clone());
        }
        for RequestArgs { request, position, ids } in &self.requests {
            let lease = request.options.lease.map_or(0, |mode| millis(server_lease(mode)));
            call = call.arg(text(request.options.permits)).arg(position.clone()).int(lease);
            for id in ids {
                call = call.arg(Bytes::copy_from_slice(id.as_bytes()));
            }
        }
        call.with_sequence(
            exactly_once::dedup_key(core, key, &keys.dedup_suffix()),
            sequence,
            core.settings.response_timeout,
        )
    }
}

/// Returns the lease to request from the server.
///
/// A fixed lease is lengthened by the safety margin, so that it is valid locally for the requested
/// time.
pub(super) fn server_lease(mode: LeaseMode) -> Duration {
    match mode {
        LeaseMode::Renewed(lease) => lease,
        LeaseMode::Fixed(lease) => with_margin(lease),
    }
}

/// The reason why an exchange granted none of its requests.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refusal {
    /// No permits were ever set.
    NotInitialised,
    /// The semaphore has this number of permits, which differs from the capacity of the handle.
    PermitsDiffer(i64),
}

/// The server's reply.
pub(super) struct ExchangeReply {
    /// For each request, whether it was granted.
    pub(super) granted: Result<Vec<bool>, Refusal>,
    /// The number of available permits. It is negative if the number of permits was lowered below
    /// the number of held ones.
    pub(super) left: i64,
    /// Number of subscribers of the channel; `None` if there was nothing to publish. If
    /// `publish_refused` is true, the subscribers did not receive the message.
    pub(super) receivers: Option<u64>,
    /// Whether the server refused to publish the message.
    pub(super) publish_refused: bool,
    /// The time until the first lease ends.
    pub(super) next_lease_end: Option<Duration>,
    pub(super) returned_found: Vec<bool>,
    pub(super) still_held: Vec<bool>,
}

impl ExchangeReply {
    pub(super) fn parse(reply: Reply) -> Result<ExchangeReply, ServerError> {
        let parts: Vec<Reply> = reply.into_typed()?;
        let expected = || ServerError::Decode { expected: "six values of an exchange of permits", got: String::new() };
        let [granted, left, receivers, next_lease_end, returned_found, still_held] =
            <[Reply; 6]>::try_from(parts).map_err(|_| expected())?;
        let flags =
            |reply: Reply| reply.into_typed::<String>().map(|text| text.bytes().map(|flag| flag == b'1').collect());
        let receivers = receivers.into_typed::<i64>()?;
        let next_lease_end = next_lease_end.into_typed::<i64>()?;
        let granted = granted.into_typed::<String>()?;
        Ok(ExchangeReply {
            granted: match granted.strip_prefix('=') {
                Some(found) => Err(Refusal::PermitsDiffer(found.parse().map_err(|_| expected())?)),
                None if granted == "-" => Err(Refusal::NotInitialised),
                None => Ok(granted.bytes().map(|flag| flag == b'1').collect()),
            },
            left: left.into_typed()?,
            // -1 means that there was nothing to publish. -2 - n means that the server refused to
            // publish the message to n subscribers.
            receivers: u64::try_from(if receivers < -1 { -2 - receivers } else { receivers }).ok(),
            publish_refused: receivers < -1,
            next_lease_end: u64::try_from(next_lease_end).ok().map(Duration::from_millis),
            returned_found: flags(returned_found)?,
            still_held: flags(still_held)?,
        })
    }
}
