//! Setting the lease of a server lease: longer by a script that may be sent until it is answered, shorter by one that is sent
//! once.

use std::sync::Arc;
use std::time::Duration;

use super::server_lease::ServerLease;
use super::table::Table;
use super::terms;
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::{CommitError, Persistence, Progress, certainly_over};
use crate::error::ServerError;

/// What became of it.
pub(super) enum Set {
    /// The server has it; believed from when the request left.
    Done {
        sent: Instant,
    },
    /// It is not ours.
    Gone,
    /// The server refused it, because it came too late.
    TooLate,
    Failed(ServerError),
    /// The primary has it, and not as durable as it was to be.
    NotDurable(CommitError),
}

impl Table {
    /// Lengthens: twice is once, so it is sent until it is answered.
    pub(super) async fn lengthen(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        lease: Duration,
        durability: Durability,
    ) -> Set {
        let request = server_lease.kind.renew(&[server_lease.claim(&server_lease.copied_field(), lease)]);
        let until = server_lease.deadline().min(self.now() + self.core.settings.patience());
        let mut underway = Lengthening::begin(server_lease, lease, self.core.settings.timeout);
        let asked = self.core.exchange(request, until, Persistence::Retries, &underway.progress).await;
        let status = asked.result.clone().and_then(|reply| reply.into_typed::<Vec<i64>>());
        let set = match status.map(|list| list.first().copied()) {
            Ok(Some(1)) => match self.core.commit(&asked, durability, &server_lease.target.key).await {
                Ok(()) => confirmed(server_lease, asked.sent, lease, durability),
                Err(error) => Set::NotDurable(error),
            },
            Ok(Some(0)) => Set::Gone,
            Ok(_) => Set::Failed(ServerError::not_sent("the server could not read or write it")),
            Err(error) => Set::Failed(error),
        };
        underway.is_known = matches!(set, Set::Done { .. } | Set::Gone) && asked.unanswered_until.is_none();
        self.reschedule(server_lease);
        set
    }

    /// Shortens: the deadline is lowered first, and the request is never sent again, as a late copy could undo what came
    /// after it.
    pub(super) async fn shorten(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        lease: Duration,
        durability: Durability,
    ) -> Set {
        let sent = self.now();
        let underway = Shortening::begin(server_lease, sent, lease, self.core.settings.timeout);
        self.reschedule(server_lease);
        let request = server_lease.kind.extend(server_lease.claim(&server_lease.copied_field(), lease));
        let until = server_lease.deadline().min(self.now() + self.core.settings.patience());
        let asked = self.core.exchange(request, until, Persistence::Retries, &Progress::default()).await;
        let answer = asked.result.clone().and_then(|reply| reply.into_typed::<(i64, u64)>());
        underway.end(asked.unanswered_until, matches!(answer, Ok((0 | 1, _))));
        let set = match answer {
            // From when it was begun, which is not later than when it left.
            // What is shorter on the primary is not shorter elsewhere: that does no harm.
            Ok((1, _)) if server_lease.durability().covers(durability) => {
                confirmed(server_lease, sent, lease, server_lease.durability())
            }
            Ok((1, _)) => match self.core.commit(&asked, durability, &server_lease.target.key).await {
                Ok(()) => confirmed(server_lease, sent, lease, durability),
                Err(error) => Set::NotDurable(error),
            },
            Ok((0, _)) => Set::Gone,
            Ok(_) => Set::TooLate,
            Err(error) => Set::Failed(error),
        };
        self.reschedule(server_lease);
        set
    }
}

/// The server has it. Believed, unless a shortening without an answer may still undo it.
fn confirmed(server_lease: &ServerLease, sent: Instant, lease: Duration, durability: Durability) -> Set {
    if server_lease.confirmed(sent, lease, durability) >= terms::deadline(sent, lease) {
        Set::Done { sent }
    } else {
        Set::Failed(ServerError::unknown("a shorter lease that was not answered may still take effect"))
    }
}

/// A lengthening under way. Unless the server is known to have it as it is believed here, what gives the server lease back does not give up
/// before the longer lease is over.
struct Lengthening<'a> {
    server_lease: &'a ServerLease,
    lease: Duration,
    timeout: Duration,
    progress: Progress,
    is_known: bool,
}

impl<'a> Lengthening<'a> {
    fn begin(server_lease: &'a ServerLease, lease: Duration, timeout: Duration) -> Self {
        Lengthening { server_lease, lease, timeout, progress: Progress::default(), is_known: false }
    }
}

impl Drop for Lengthening<'_> {
    fn drop(&mut self) {
        if !self.is_known && self.progress.is_sent() {
            let limit = self.server_lease.clock.now() + self.timeout;
            self.server_lease.raise_upper_bound(certainly_over(limit, self.timeout) + self.lease);
        }
    }
}

/// A shortening under way. Dropped early, it counts as unanswered.
struct Shortening<'a> {
    server_lease: &'a ServerLease,
    timeout: Duration,
    /// When the lease before it ends.
    former: Instant,
    ended: bool,
}

impl<'a> Shortening<'a> {
    fn begin(server_lease: &'a ServerLease, sent: Instant, lease: Duration, timeout: Duration) -> Self {
        let former = server_lease.lease_ends();
        server_lease.begin_shortening(sent, lease);
        Shortening { server_lease, timeout, former, ended: false }
    }

    /// `is_known`: the server has told that it is done, or that there is nothing to be done.
    fn end(mut self, unanswered_until: Option<Instant>, is_known: bool) {
        self.ended = true;
        if !is_known {
            self.server_lease.raise_upper_bound(self.former);
        }
        self.server_lease.end_shortening(unanswered_until);
    }
}

impl Drop for Shortening<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let limit = self.server_lease.clock.now() + self.timeout;
            self.server_lease.raise_upper_bound(self.former);
            self.server_lease.end_shortening(Some(certainly_over(limit, self.timeout)));
        }
    }
}
