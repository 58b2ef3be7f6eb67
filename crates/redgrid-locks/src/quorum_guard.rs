//! The proof that a majority of servers has granted a lock.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use redgrid_core::lock::{
    AcquireRequest, ExtendError, Extender, HoldGuard, HoldWatch, LeaseMode, LostReason, ReleaseError,
};
use redgrid_core::{Name, ServerError, Token};

use crate::guard::LockLost;
use crate::quorum::{Answers, QuorumLock, Vote, each};

/// A lock that a majority of servers has granted. Dropping it gives it back at all of them in the background.
///
/// Each grant is renewed, and may be lost, on its own; the lock is held while a majority of them may be believed.
#[must_use = "dropping the guard gives the lock back"]
pub struct QuorumGuard {
    lock: QuorumLock,
    name: Name,
    request: AcquireRequest,
    token: Option<Token>,
    held: Mutex<Held>,
}

/// What the servers have granted.
struct Held {
    grants: Vec<(usize, HoldGuard)>,
    /// Those that answered after the majority did.
    late: Answers<Vote>,
    /// Fewer than a majority could be believed, once: somebody else may have been in.
    over: bool,
}

impl Held {
    fn votes(&self) -> usize {
        self.grants.iter().filter(|(_, grant)| grant.is_held()).count()
    }

    /// One more, which counts only while there is a majority without it. Each server has one vote.
    fn add(&mut self, majority: usize, at: usize, grant: HoldGuard) {
        self.over |= self.votes() < majority;
        let has_voted = self.grants.iter().any(|(voter, grant)| *voter == at && grant.is_held());
        if !self.over && !has_voted {
            self.grants.retain(|(voter, _)| *voter != at);
            self.grants.push((at, grant));
        }
    }
}

impl QuorumGuard {
    pub(crate) fn new(
        lock: QuorumLock,
        wanted: AcquireRequest,
        grants: Vec<(usize, HoldGuard)>,
        late: Answers<Vote>,
        token: Option<Token>,
    ) -> Self {
        let name = grants[0].1.name().clone();
        QuorumGuard { lock, name, request: wanted, token, held: Mutex::new(Held { grants, late, over: false }) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        let mut held = self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while let Ok((at, vote)) = held.late.try_recv() {
            if let Ok(Some(grant)) = vote {
                held.add(self.lock.majority(), at, grant);
            }
        }
        held.over |= held.votes() < self.lock.majority();
        held
    }

    /// The name of the lock.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The fencing token, where the lock is [`fenced`](QuorumLock::fenced): higher than that of every earlier holder.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// How many servers' grants may be believed at this instant.
    pub fn votes(&self) -> usize {
        self.held().votes()
    }

    /// Whether a majority of the grants may be believed at this instant, by our own clock and with a margin. Asks nobody.
    pub fn is_held(&self) -> bool {
        !self.held().over
    }

    /// How long a majority may be believed without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        let held = self.held();
        if held.over {
            return Duration::ZERO;
        }
        let mut remaining: Vec<_> = held.grants.iter().map(|(_, grant)| grant.remaining()).collect();
        drop(held);
        remaining.sort_unstable_by(|one, other| other.cmp(one));
        remaining.get(self.lock.majority() - 1).copied().unwrap_or_default()
    }

    /// Completes when a majority may be believed no more, and tells how the last of them was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) -> LostReason {
        loop {
            let watches: Vec<HoldWatch> =
                self.held().grants.iter().map(|(_, grant)| grant.watch()).filter(HoldWatch::is_held).collect();
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
        self.held().grants.iter().rev().find_map(|(_, grant)| grant.lost_reason()).unwrap_or(LostReason::Expired)
    }

    /// Runs `work` while the lock is held, and drops it when it is lost.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost first; the work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work; the guard still holds.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        tokio::select! {
            biased;
            reason = self.lost() => Err(LockLost { name: self.name.clone(), reason }),
            done = work => Ok(done),
        }
    }

    /// Sets the lease anew at all servers. Those that have lost it, or never had it, are asked for it again while a majority
    /// has it.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] when fewer than a majority confirmed it; where each has confirmed, that is believed.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, some servers have the new lease.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let (majority, longest) = (self.lock.majority(), self.lock.longest());
        if lease > longest {
            let expected = "at most the longest lease of the quorum";
            return Err(ExtendError::InvalidArgument { name: self.name.clone(), expected, got: lease });
        }
        let mine: Vec<(usize, Extender)> = {
            let mut held = self.held();
            held.grants.retain(|(_, grant)| grant.is_held());
            held.grants.iter().map(|(at, grant)| (*at, grant.extender())).collect()
        };
        let have: Vec<usize> = mine.iter().map(|(at, _)| *at).collect();
        if have.len() < majority || !self.is_held() {
            return Err(ExtendError::Lost { name: self.name.clone(), reason: LostReason::Expired });
        }
        let request = match self.request.lease {
            LeaseMode::Fixed(_) => AcquireRequest { lease: LeaseMode::Fixed(lease), ..self.request.clone() },
            LeaseMode::Renewed(_) => self.request.clone(),
        };
        let mut again = self.lock.ask_all(&request, &have);
        let mut answers = each(mine.into_iter().map(|(_, mine)| async move { mine.extend(lease).await }));
        let (mut confirmed, mut error) = (0, None);
        while let Some(extended) = answers.recv().await {
            match extended {
                Ok(()) => confirmed += 1,
                Err(trouble) => error = Some(trouble),
            }
        }
        while let Some((at, vote)) = again.recv().await {
            let grant = vote.ok().flatten();
            confirmed += usize::from(grant.is_some());
            if let Some(grant) = grant {
                self.held().add(majority, at, grant);
            }
        }
        if !self.is_held() {
            return Err(ExtendError::Lost { name: self.name.clone(), reason: self.reason() });
        }
        if confirmed >= majority {
            return Ok(());
        }
        let source = ServerError::NotSent { reason: "fewer than a majority of the servers could be asked".into() };
        Err(error.unwrap_or(ExtendError::NotExtended { name: self.name.clone(), source }))
    }

    /// Gives it back at all servers, and waits until a majority has confirmed it. The rest goes on in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when a majority could be believed no more: somebody else may have been in. Otherwise what the
    /// last of too many servers said.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let (held, reason) = (self.is_held(), self.reason());
        let majority = self.lock.majority();
        let grants = std::mem::take(&mut self.held().grants);
        let mut answers = each(grants.into_iter().map(|(_, grant)| grant.release()));
        let (mut confirmed, mut error) = (0, None);
        while confirmed < majority {
            match answers.recv().await {
                Some(Ok(())) => confirmed += 1,
                Some(Err(trouble)) => error = Some(trouble),
                None => break,
            }
        }
        match error {
            _ if !held => Err(ReleaseError::Lost { name: self.name.clone(), reason }),
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
    fn guards_move_between_tasks() {
        fn is_free_to_move<T: Send + Sync + 'static>() {}
        is_free_to_move::<QuorumGuard>();
        is_free_to_move::<QuorumLock>();
        is_free_to_move::<crate::Quorum>();
    }
}
