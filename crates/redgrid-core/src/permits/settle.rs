//! What an answer brought and what is only believed once it is as durable as asked: grants, and leases that are longer now.
//!
//! Replicas and disks are waited for by tasks of their own: what others of the name ask meanwhile goes on.

use std::sync::Arc;

use super::pool::{Failure, Pool};
use super::queue::{Back, Entry, Extension, State};
use super::stock::{Leased, Stock};
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::{CommitError, RequestOutcome};
use crate::error::ServerError;
use crate::lock::ExtendError;

/// Permits that were granted, and to whom, if he still waits.
pub(super) struct Grant {
    pub(super) entry: Option<Entry>,
    pub(super) stock: Stock,
}

impl Grant {
    /// Until it is proven it is ours, renewed with the others.
    fn keep(&self, state: &mut State) {
        state.out += self.stock.n;
        state.leased.extend(self.stock.leased.iter().map(|leased| (leased.id, Arc::clone(leased))));
    }

    fn unkeep(&self, state: &mut State) {
        state.out = state.out.saturating_sub(self.stock.n);
        for leased in &self.stock.leased {
            state.leased.remove(&leased.id);
        }
    }

    /// They go to the one who asked, to the next who waits, or back.
    fn settle(self, pool: &Arc<Pool>, state: &mut State, proven: &Result<(), CommitError>) {
        let Grant { entry, stock } = self;
        // While it was proven, it may have been found gone.
        let over = stock.lost().is_some();
        if proven.is_err() || over || state.closed {
            state.back.push(Back { stock, audience: None });
            let failure = match proven {
                Err(error) => Failure::NotDurable(error.clone()),
                Ok(()) if state.closed => Failure::ShuttingDown,
                Ok(()) => Failure::Unknown(ServerError::unknown("the lease had ended when it was known to be granted")),
            };
            entry.map(|entry| entry.answer.send(Err(failure)));
            return;
        }
        state.leased.extend(stock.leased.iter().map(|leased| (leased.id, Arc::clone(leased))));
        match entry {
            Some(entry) => state.give(pool, entry, stock, pool.clock().now()),
            None => state.spare.merge(stock),
        }
    }
}

/// Leases that last longer now, by what the server said.
pub(super) struct Belief {
    /// Each, until when, and how often it had been shortened when it was asked about.
    pub(super) leased: Vec<(Arc<Leased>, Instant, u64)>,
    /// Who asked for the last of them.
    pub(super) extension: Option<Extension>,
}

impl Belief {
    /// What the server's word is not enough for.
    fn lacking(&self) -> Vec<Durability> {
        let mut lacking = Vec::new();
        for (leased, ..) in &self.leased {
            let durability = leased.durability;
            if !Durability::Primary.covers(durability) && !lacking.contains(&durability) {
                lacking.push(durability);
            }
        }
        lacking
    }

    fn settle(self, pool: &Pool, proven: &Result<(), CommitError>) {
        for (leased, until, shortened) in &self.leased {
            match proven {
                // One that was shortened meanwhile ends as it was asked to later.
                Ok(()) if leased.shortened() == *shortened => leased.confirmed(*until),
                Ok(()) => {}
                Err(_) => leased.look_now(),
            }
        }
        let Some(Extension { leased, audience, .. }) = self.extension else { return };
        let name = || pool.source.name.clone();
        let lost = leased.iter().find_map(|leased| leased.lost());
        let told = match (lost, proven) {
            (Some(reason), _) => Err(ExtendError::Lost { name: name(), reason }),
            (None, Err(source)) => Err(ExtendError::NotDurable { name: name(), source: source.clone() }),
            (None, Ok(())) => Ok(()),
        };
        let _ = audience.send(told);
    }
}

/// What still waits for replicas or a disk.
pub(super) enum Unproven {
    Grant(Grant, Durability),
    Belief(Belief, Vec<Durability>),
}

impl Pool {
    /// Takes in what was granted; what is to be more durable is left in `unproven`.
    pub(super) fn take_in(
        self: &Arc<Self>,
        state: &mut State,
        (grants, durability): (Vec<Grant>, Durability),
        belief: Belief,
    ) -> Vec<Unproven> {
        let mut unproven = Vec::new();
        match belief.lacking() {
            lacking if lacking.is_empty() => belief.settle(self, &Ok(())),
            lacking => unproven.push(Unproven::Belief(belief, lacking)),
        }
        for grant in grants {
            if state.closed || Durability::Primary.covers(durability) {
                grant.settle(self, state, &Ok(()));
            } else {
                grant.keep(state);
                unproven.push(Unproven::Grant(grant, durability));
            }
        }
        unproven
    }

    /// Has what is unproven after this exchange proven, each by itself.
    pub(super) fn prove(self: &Arc<Self>, unproven: Vec<Unproven>, asked: RequestOutcome) {
        let asked = Arc::new(asked);
        for one in unproven {
            let (pool, asked) = (Arc::clone(self), Arc::clone(&asked));
            self.pools.hand_over(Box::pin(async move {
                let proven = match &one {
                    Unproven::Grant(_, durability) => pool.commit(&asked, &[*durability]).await,
                    Unproven::Belief(_, lacking) => pool.commit(&asked, lacking).await,
                };
                pool.proven(one, &proven);
            }));
        }
    }

    async fn commit(&self, asked: &RequestOutcome, durabilities: &[Durability]) -> Result<(), CommitError> {
        for durability in durabilities {
            self.core.commit(asked, *durability, &self.source.key).await?;
        }
        Ok(())
    }

    fn proven(self: &Arc<Self>, one: Unproven, proven: &Result<(), CommitError>) {
        let mut state = self.state();
        match one {
            Unproven::Belief(belief, _) => belief.settle(self, proven),
            // It went back with everything.
            Unproven::Grant(Grant { entry, .. }, _) if state.closed => {
                entry.map(|entry| entry.answer.send(Err(Failure::ShuttingDown)));
                return;
            }
            Unproven::Grant(grant, _) => {
                grant.unkeep(&mut state);
                grant.settle(self, &mut state, proven);
            }
        }
        self.schedule_renewal(&mut state, self.clock().now());
        let kick = self.drive_if_needed(&mut state);
        drop(state);
        self.lost.notify_waiters();
        kick.by_task(&self.pools);
    }
}
