//! The contract of a lock kind: its keys, options, scripts, and the meaning of their replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::RequestOutcome;
use redgrid_client::{Reply, Request, ServerError};

use super::error::AcquireFailure;
use super::fair::ServerQueue;
use super::multi::MultiKeyProtocol;
use super::shared::ReadWriteMode;
use super::takeover::TakeoverFrom;
use crate::backoff::Backoff;
use crate::config::Durability;
use crate::label::Label;
use crate::lease::{LeaseMode, with_margin};
use crate::name::{Name, companion};

/// The key of a lock, its companion keys, and the channel on which its releases are published.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct LockKeys {
    /// The name as the user gave it.
    pub name: Name,
    /// The key, including the namespace.
    pub key: Bytes,
    /// The channel on which a release is published.
    pub channel: Bytes,
    /// Further keys of the lock kind, in the hash slot of `key`.
    pub more: Box<[Bytes]>,
    /// The label `family` in metrics and spans; empty unless the handle sets it.
    pub family: &'static str,
}

impl LockKeys {
    /// Returns the key of the flag that waiters without a subscription set on the server.
    ///
    /// The struct does not store this key: only waiters and releases under contention need it.
    pub fn poll_waiter_flag(&self) -> Bytes {
        companion("redgrid_wait", &self.key)
    }
}

/// The arguments of a script for one hold.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct HoldArgs<'a> {
    /// The keys of the lock.
    pub target: &'a LockKeys,
    /// The holder field, new for each grant: `<client id>:<number>`.
    pub field: &'a Bytes,
    /// The requested lease; zero for a renewal that only verifies the hold.
    pub lease: Duration,
}

/// The options of an acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct AcquireRequest {
    /// The length of the lease, and whether the lease is renewed.
    pub lease: LeaseMode,
    /// The holder on whose behalf the request is made. A request without a holder never re-enters a
    /// hold.
    pub holder: Option<HolderId>,
    /// The minimum time after the grant in which the lock stays taken, even if it is released or
    /// abandoned earlier.
    pub at_least: Duration,
    /// The time from the grant to the end of the renewals; `None` for no limit.
    pub max_hold: Option<Duration>,
    /// Whether the request is try-only: it does not wait if the lock is taken.
    pub once: bool,
    /// How long the caller waits; `None` for no limit.
    pub wait: Option<Duration>,
    /// How durable the grant and its renewals must be before they are valid.
    pub durability: Durability,
    /// Whether the holder is allowed to re-enter its own hold. If not, a request of a holder that
    /// has the lock fails with `AlreadyHeld`.
    pub reenters: bool,
    /// The pauses between tries, for lock kinds whose releases send no messages; `None` for all
    /// others. Each pause is shortened at random by up to half.
    pub backoff: Option<Backoff>,
    /// A text that describes the hold in reports about the client.
    pub label: Option<Label>,
}

impl AcquireRequest {
    /// Returns a request with this lease and durability, and the defaults of all other options.
    pub fn new(lease: LeaseMode, durability: Durability) -> Self {
        AcquireRequest {
            lease,
            holder: None,
            at_least: Duration::ZERO,
            max_hold: None,
            once: false,
            wait: None,
            durability,
            reenters: true,
            backoff: None,
            label: None,
        }
    }

    /// Returns the lease to request from the server.
    ///
    /// A hand-over window and a margin are added to a fixed lease. So a task that gets the lock at
    /// the end of the window still has its full lease. The result is never shorter than `at_least`:
    /// even if the process dies, the lock stays taken for that long.
    pub(crate) fn server_lease(&self, handover_window: Duration) -> Duration {
        let lease = match self.lease {
            LeaseMode::Renewed(lease) => lease,
            LeaseMode::Fixed(lease) => with_margin(lease + handover_window),
        };
        if self.at_least.is_zero() { lease } else { lease.max(with_margin(self.at_least)) }
    }
}

/// A number that distinguishes the holders of one process.
pub type HolderId = u64;

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static CURRENT: Holder;
}

/// An identity that can re-enter the locks that it already holds.
///
/// ```
/// use redgrid_core::Holder;
///
/// let me = Holder::new();
/// let also_me = me.clone();
/// assert_eq!(me, also_me);
/// assert_ne!(me, Holder::new());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(Arc<HolderId>);

impl Holder {
    /// Creates a holder that is equal to no other.
    #[allow(clippy::new_without_default, reason = "a default would suggest that all defaults are equal")]
    pub fn new() -> Self {
        Holder(Arc::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs `work` with a holder of its own.
    ///
    /// Every acquire in `work` is made as that holder, unless the acquire names another one.
    /// Functions that call each other can therefore acquire the same lock. Tasks that `work` spawns
    /// are outside the scope.
    ///
    /// Inside another scope, no holder is created: `work` runs with the holder of the outer scope.
    ///
    /// # Cancel safety
    ///
    /// The future is as cancel-safe as `work`.
    pub async fn scope<F: Future>(work: F) -> F::Output {
        match Holder::current() {
            Some(_) => work.await,
            None => CURRENT.scope(Holder::new(), work).await,
        }
    }

    /// Returns the holder of the current scope; `None` outside of any scope.
    pub fn current() -> Option<Holder> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Returns the number of the holder.
    pub fn id(&self) -> HolderId {
        *self.0
    }
}

/// How one kind of lock is acquired, renewed and released. Each kind is one static value.
///
/// Every script is idempotent: the holder field shows whether an earlier transmission of the same
/// request has succeeded.
pub trait LockProtocol: Send + Sync + 'static {
    /// Returns the name of the lock kind. Kind and key together identify a lock.
    fn name(&self) -> &'static str;

    /// Returns whether tasks of this process hand a grant over to each other during the hand-over
    /// window, without a request.
    fn hands_over_locally(&self) -> bool {
        true
    }

    /// Returns the server's queue of waiters; `None` if the kind has none.
    fn queue(&self) -> Option<&dyn ServerQueue> {
        None
    }

    /// Returns the mode of a kind of read-write lock: reading or writing. `None` for other kinds.
    fn read_write(&self) -> Option<&dyn ReadWriteMode> {
        None
    }

    /// Returns the protocol of multi-key acquires; `None` if the kind has none.
    fn multi_key(&self) -> Option<&dyn MultiKeyProtocol> {
        None
    }

    /// Acquires the lock if it is free.
    ///
    /// The reply is `{status, time, left}`:
    ///
    /// | element | meaning |
    /// |---|---|
    /// | `status` | 1 granted, 0 busy, 2 too late |
    /// | `time` | server time in microseconds since 1970, as a number or as text |
    /// | `left` | if the lock is busy: the lifetime of its key in ms, as PTTL returns it |
    ///
    /// If there is a fourth element, it is the token of the grant; otherwise the token is `time`.
    /// Only kinds without local hand-over are allowed to send a fourth element.
    ///
    /// The reply can also be a single number, which is `time`. Such a reply means that the lock was
    /// granted, and that no other holder lost the lock.
    fn acquire(&self, claim: HoldArgs<'_>) -> Request;

    /// Acquires the lock even if it is held, provided that `from` allows the takeover.
    ///
    /// The check of `from` and the acquire are one atomic step. For each redgrid holder that loses
    /// the lock, the script publishes a notice. Its channel is `notices`, followed by the id of
    /// that holder's client and `}`. The reply is like that to `acquire`, but `left` is the number
    /// of holders that lost the lock. If `from` does not allow the takeover, the status is 0, and
    /// `left` is -2 if the lock is free.
    fn take_over(&self, claim: HoldArgs<'_>, notices: &str, from: &TakeoverFrom) -> Request;

    /// Takes over a detached hold: the holder field of the claim replaces `former`.
    ///
    /// The reply is `{status, time, left}`. Status 1 means that the hold was taken over and lasts
    /// for `left` milliseconds. Status 0 means that `former` no longer holds the lock. Status 2
    /// means that the request was too late. If the claim's lease is zero, the lifetime of the key
    /// is not changed. Returns `None` if holds of this kind cannot be handed to another process.
    fn adopt(&self, _claim: HoldArgs<'_>, _former: &Bytes) -> Option<Request> {
        None
    }

    /// Releases the lock.
    ///
    /// The reply is a status: 0 if the lock was not held under this holder field, otherwise 1 + the
    /// number of notified subscribers. If the server refused to publish the release, the reply is
    /// `{status, 2}`. In that case, the subscribers that `status` counts were not notified.
    fn release(&self, claim: HoldArgs<'_>) -> Request;

    /// Releases the lock at the end of the hand-over window, while requests of this process wait
    /// for the lock.
    ///
    /// The reply is `{status, waiting}`, with `status` as in `release`. `waiting` is 1 if some
    /// waiter receives no messages, 2 if the server refused to publish the release, and 0
    /// otherwise.
    fn release_yielding(&self, claim: HoldArgs<'_>) -> Request;

    /// Ends the hold, but keeps the lock taken for `claim.lease`.
    ///
    /// Another holder field replaces the field of the ended hold, so that late renewals of that
    /// hold find nothing. The reply is 1, or 0 if the lock was not held.
    fn retain(&self, claim: HoldArgs<'_>) -> Request;

    /// Sets the lease. The new lease can be longer or shorter than the current one.
    ///
    /// The reply is `{status, time}`: status 1 if done, 0 if the lock is not held, 2 if too late.
    fn extend(&self, claim: HoldArgs<'_>) -> Request;

    /// Extends several leases. A lease that is already longer than requested is not changed.
    ///
    /// The reply lists a status for each claim: 1 if its lease was renewed, 0 if its lock is not
    /// held. Any other number means that it is not known whether the lock is held.
    fn renew(&self, claims: &[HoldArgs<'_>]) -> Request;

    /// Releases several locks.
    ///
    /// The reply lists a status for each claim, as in `release`, with two exceptions. The status is
    /// -1 if the key cannot be written. If the server refused to publish the release of the key,
    /// the status is -2 minus the number of subscribers.
    fn release_many(&self, claims: &[HoldArgs<'_>]) -> Request;
}

impl<'a> dyn LockProtocol + 'a {
    /// Returns whether tasks of this process can share a grant.
    pub(crate) fn is_shared(&self) -> bool {
        self.read_write().is_some_and(ReadWriteMode::is_shared)
    }
}

/// Parsed reply to an acquire request.
pub(super) enum AcquireReply {
    Granted {
        token: u64,
        /// `left` in the reply: after a takeover, the number of holders that lost the lock; after
        /// an attach, the lifetime of the hold in milliseconds.
        left: i64,
    },
    Busy {
        /// How long the lock stays taken; `Duration::MAX` if that is not known.
        left: Duration,
        /// The server's time, in microseconds.
        time: u64,
        /// Whether the key, or the hold that the request converts, does not exist any more.
        is_gone: bool,
    },
    TooLate,
    Failed(AcquireFailure),
}

/// Smallest plausible server time (µs since 1970; year 2001). A smaller integer is an invalid
/// reply.
const MIN_SERVER_TIME: i64 = 1_000_000_000_000_000;

/// Parses the reply to an acquire, a takeover or an attach. Updates the estimate of the server's
/// clock.
pub(super) fn parse_reply(outcome: &RequestOutcome) -> AcquireReply {
    let reply = match &outcome.result {
        Ok(reply) => reply,
        Err(error) => {
            let failure = AcquireFailure::from(error.clone());
            return AcquireReply::Failed(if outcome.was_retransmitted() { failure.unknown() } else { failure });
        }
    };
    let answer = match reply {
        // The most frequent reply: the server's time alone. It means that the lock was granted and
        // no other holder lost it.
        Reply::Int(time) if *time > MIN_SERVER_TIME => Ok((1, time.unsigned_abs(), 0, time.unsigned_abs())),
        // Read the list element by element: converting it as a whole would copy it at each acquire.
        Reply::Array(parts) => match &parts[..] {
            [status, time, left] => read(status, time, left, time),
            [status, time, left, token] => read(status, time, left, token),
            _ => Err(misfit(reply)),
        },
        Reply::Error(error) => Err(error.clone()),
        other => Err(misfit(other)),
    };
    let (status, time, left, token) = match answer {
        Ok(answer) => answer,
        Err(error) => return AcquireReply::Failed(AcquireFailure::Unknown(error)),
    };
    // If the node has reconnected since the request, its clock estimate may describe another server
    // process by now. Then the time in this reply is ignored.
    if outcome.by.current_connection_id() == outcome.epoch {
        outcome.by.time().observe_exchange(time, outcome.sent, outcome.received);
    }
    match (status, left) {
        (1, _) => AcquireReply::Granted { token, left },
        // The key has expired meanwhile (-2), or expires now (0): retry soon.
        (0, -2 | 0) => AcquireReply::Busy { left: Duration::from_millis(1), time, is_gone: left == -2 },
        // The key has no TTL: only a message or a poll can show that the lock was released.
        (0, ..0) => AcquireReply::Busy { left: Duration::MAX, time, is_gone: false },
        (0, _) => AcquireReply::Busy { left: Duration::from_millis(left.unsigned_abs()), time, is_gone: false },
        _ => AcquireReply::TooLate,
    }
}

fn misfit(reply: &Reply) -> ServerError {
    ServerError::Decode { expected: "the time of the grant, or a list of three or four values", got: reply.to_string() }
}

fn read(status: &Reply, time: &Reply, left: &Reply, token: &Reply) -> Result<(i64, u64, i64, u64), ServerError> {
    let (status, left) = (status.clone().into_typed()?, left.clone().into_typed()?);
    Ok((status, time.clone().into_typed()?, left, token.clone().into_typed()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Instant;
    use crate::lease::deadline;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_job_that_must_run_once_outlives_its_process() {
        let (handover_window, renewed) =
            (10 * MS, |lease| AcquireRequest::new(LeaseMode::Renewed(lease), Durability::Primary));
        let keeping = |lease, at_least| AcquireRequest { at_least, ..renewed(lease) }.server_lease(handover_window);
        assert_eq!(keeping(30_000 * MS, Duration::ZERO), 30_000 * MS);
        assert!(keeping(1000 * MS, 5000 * MS) >= 5250 * MS);
        assert_eq!(keeping(30_000 * MS, 5000 * MS), 30_000 * MS);
    }

    #[test]
    fn a_fixed_lease_that_is_handed_over_last_has_its_whole_length() {
        let lease = AcquireRequest::new(LeaseMode::Fixed(10_000 * MS), Durability::Primary).server_lease(10 * MS);
        assert!(deadline(Instant::MIN, lease) >= Instant::MIN + 10_010 * MS);
    }
    #[tokio::test]
    async fn a_scope_has_one_holder_and_spawned_tasks_have_none() {
        let spawned = Holder::scope(async {
            let outer = Holder::current();
            assert!(outer.is_some());
            let inner = Holder::scope(async { Holder::current() }).await;
            assert_eq!(outer, inner);
            tokio::spawn(async { Holder::current() }).await
        });
        assert_eq!(spawned.await.ok(), Some(None));
    }
}
