//! The guard of a lock that a majority of servers has granted.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use redgrid_core::lock::{AcquireRequest, ExtendError, HoldGuard, HoldWatch, LeaseMode, LostReason, ReleaseError};
use redgrid_core::{Name, ServerError, Token};

use crate::quorum::{QuorumLock, Replies, Vote, spawn_each};
use crate::with::LockLost;

/// A lock that a majority of servers has granted. Dropping the guard releases it at all servers in
/// the background.
///
/// Each grant is renewed on its own, and may be lost on its own. The lock is held while a majority
/// of the grants is valid.
#[must_use = "dropping the guard releases the lock"]
pub struct QuorumGuard {
    lock: QuorumLock,
    name: Name,
    request: AcquireRequest,
    token: Option<Token>,
    grants: Mutex<Grants>,
}

/// The grants of the servers.
struct Grants {
    /// Index of the server, and its grant.
    votes: Vec<(usize, HoldGuard)>,
    /// Votes that arrive after those of the majority.
    late_votes: Replies<Vote>,
    /// Whether fewer than a majority were valid at some time: another holder may have had the lock.
    is_lost: bool,
}

impl Grants {
    fn valid_votes(&self) -> usize {
        self.votes.iter().filter(|(_, grant)| grant.is_held()).count()
    }

    /// Adds a grant. It counts only if the earlier grants are still a majority.
    ///
    /// Each server has one vote.
    fn add(&mut self, majority: usize, at: usize, grant: HoldGuard) {
        self.is_lost |= self.valid_votes() < majority;
        let has_voted = self.votes.iter().any(|(voter, grant)| *voter == at && grant.is_held());
        if !self.is_lost && !has_voted {
            self.votes.retain(|(voter, _)| *voter != at);
            self.votes.push((at, grant));
        }
    }
}

impl QuorumGuard {
    pub(crate) fn new(
        lock: QuorumLock,
        request: AcquireRequest,
        votes: Vec<(usize, HoldGuard)>,
        late_votes: Replies<Vote>,
        token: Option<Token>,
    ) -> Self {
        let name = votes[0].1.name().clone();
        let grants = Mutex::new(Grants { votes, late_votes, is_lost: false });
        QuorumGuard { lock, name, request, token, grants }
    }

    /// Locks the grants, after adding late votes and checking the majority.
    fn current_grants(&self) -> MutexGuard<'_, Grants> {
        let mut grants = self.grants.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Ok((at, vote)) = grants.late_votes.try_recv() {
            if let Ok(Some(grant)) = vote {
                grants.add(self.lock.majority(), at, grant);
            }
        }
        grants.is_lost |= grants.valid_votes() < self.lock.majority();
        grants
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the fencing token of a [`fenced`](QuorumLock::fenced) lock.
    ///
    /// It is higher than that of every earlier holder.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// Returns the number of servers with a valid grant at this instant.
    pub fn votes(&self) -> usize {
        self.current_grants().valid_votes()
    }

    /// Returns whether a majority of the grants is valid at this instant, by the local clock and
    /// with a margin.
    ///
    /// It sends no request.
    pub fn is_held(&self) -> bool {
        !self.current_grants().is_lost
    }

    /// Returns how long a majority is valid without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        let grants = self.current_grants();
        if grants.is_lost {
            return Duration::ZERO;
        }
        let mut remaining: Vec<_> = grants.votes.iter().map(|(_, grant)| grant.remaining()).collect();
        drop(grants);
        remaining.sort_unstable_by(|a, b| b.cmp(a));
        remaining.get(self.lock.majority() - 1).copied().unwrap_or_default()
    }

    /// Completes when no majority of the grants is valid any more.
    ///
    /// If several grants are lost, it returns the reason of the one that arrived last.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        loop {
            let watches: Vec<HoldWatch> =
                self.current_grants().votes.iter().map(|(_, grant)| grant.watch()).filter(HoldWatch::is_held).collect();
            if watches.len() < self.lock.majority() || !self.is_held() {
                return self.reason();
            }
            let mut ends: Vec<_> = watches.iter().map(|watch| Box::pin(watch.ended())).collect();
            poll_fn(|cx| {
                let ended = ends.iter_mut().any(|end| end.as_mut().poll(cx).is_ready());
                if ended { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    fn reason(&self) -> LostReason {
        self.current_grants()
            .votes
            .iter()
            .rev()
            .find_map(|(_, grant)| grant.lost_reason())
            .unwrap_or(LostReason::Expired)
    }

    /// Runs `work` while the lock is held, and drops it when it is lost.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost before the work completed. The work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The guard keeps the lock.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        tokio::select! {
            biased;
            reason = self.lost() => Err(LockLost { name: self.name.clone(), reason }),
            done = work => Ok(done),
        }
    }

    /// Sets the lease at all servers.
    ///
    /// Servers that lost the lock, or never granted it, receive a new request while a majority has
    /// it.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] when fewer than a majority confirmed the new lease. It is valid at each
    /// server that confirmed it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, some servers may have the new lease.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let (majority, longest) = (self.lock.majority(), self.lock.longest_lease());
        if lease > longest {
            let expected = "at most the longest lease of the quorum";
            return Err(ExtendError::InvalidArgument { name: self.name.clone(), expected, got: lease });
        }
        let lost = ExtendError::Lost { name: self.name.clone(), reason: LostReason::Expired };
        if !self.is_held() {
            return Err(lost);
        }
        let (voters, extensions): (Vec<usize>, Vec<_>) = {
            let mut grants = self.current_grants();
            grants.votes.retain(|(_, grant)| grant.is_held());
            if grants.votes.len() < majority {
                return Err(lost);
            }
            grants.votes.iter().map(|(at, grant)| (*at, grant.extend(lease))).unzip()
        };
        let request = match self.request.lease {
            LeaseMode::Fixed(_) => AcquireRequest { lease: LeaseMode::Fixed(lease), ..self.request.clone() },
            LeaseMode::Renewed(_) => self.request.clone(),
        };
        let mut new_votes = self.lock.request_votes(&request, &voters);
        let mut replies = spawn_each(extensions.into_iter());
        let (mut confirmed, mut last_error) = (0, None);
        while let Some(extended) = replies.recv().await {
            match extended {
                Ok(()) => confirmed += 1,
                Err(error) => last_error = Some(error),
            }
        }
        while let Some((at, vote)) = new_votes.recv().await {
            let grant = vote.ok().flatten();
            confirmed += usize::from(grant.is_some());
            if let Some(grant) = grant {
                self.current_grants().add(majority, at, grant);
            }
        }
        if !self.is_held() {
            return Err(ExtendError::Lost { name: self.name.clone(), reason: self.reason() });
        }
        if confirmed >= majority {
            return Ok(());
        }
        let source = ServerError::NotSent { reason: "no majority of the servers could be reached".into() };
        Err(last_error.unwrap_or(ExtendError::NotExtended { name: self.name.clone(), source }))
    }

    /// Releases the lock at all servers, and waits until a majority has confirmed it.
    ///
    /// The other releases go on in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when no majority was valid any more: another holder may have had the
    /// lock. Otherwise, if too many servers failed, the error of the last of them.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let (was_held, reason) = (self.is_held(), self.reason());
        let majority = self.lock.majority();
        let votes = std::mem::take(&mut self.current_grants().votes);
        let mut replies = spawn_each(votes.into_iter().map(|(_, grant)| grant.release()));
        let (mut confirmed, mut last_error) = (0, None);
        while confirmed < majority {
            match replies.recv().await {
                Some(Ok(())) => confirmed += 1,
                Some(Err(error)) => last_error = Some(error),
                None => break,
            }
        }
        match last_error {
            _ if !was_held => Err(ReleaseError::Lost { name: self.name.clone(), reason }),
            Some(error) if confirmed < majority => Err(error),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for QuorumGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuorumGuard").field("name", &self.name).field("votes", &self.votes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_can_move_between_tasks() {
        fn assert_movable<T: Send + Sync + 'static>() {}
        assert_movable::<QuorumGuard>();
        assert_movable::<QuorumLock>();
        assert_movable::<crate::Quorum>();
    }
}
