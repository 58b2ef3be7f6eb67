//! One failover: the fault, the promotion, the first grant after it, and the recovery of the
//! deployment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::config::Durability;
use redgrid_core::{Client, Failure};
use redgrid_locks::{AcquireError, Lock};
use tokio::time::{sleep, timeout};

use crate::account::{Account, Mode};
use crate::burst::Burst;
use crate::deployment::{Deployment, Fault, Scripts, promotion};

/// How long names are taken before the fault.
const BEFORE: Duration = Duration::from_millis(300);

/// Limit of a failover.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rounds<'a> {
    pub(crate) deployment: &'a Deployment,
    pub(crate) clients: &'a [Client; 2],
    pub(crate) account: &'a Arc<Account>,
    pub(crate) durable: Durability,
    pub(crate) fault: Fault,
}

impl Rounds<'_> {
    pub(crate) async fn run(&self, round: u32) -> Result<(), String> {
        // In a cluster, the rounds use the three primaries in turn: the tags are in different
        // thirds of the slots.
        let tag = ["a", "b", "c"][round as usize % 3];
        let primary = self.deployment.primary_of(tag).await?;
        let replicas = self.deployment.replicas_of(primary).await?;
        let bursts = Mode::BOTH.map(|mode| {
            let durability = if mode == Mode::All { self.durable } else { Durability::Primary };
            Burst::start(&self.clients[0], mode, durability, tag.to_owned(), round)
        });
        sleep(BEFORE).await;
        let watched = promotion(&replicas);
        let fails = async {
            let failed = match self.fault {
                Fault::Kill => primary.kill().await.map_err(|error| error.to_string()),
                Fault::Stop => primary.pause().await.map_err(|error| error.to_string()),
                Fault::Plan => self.deployment.replace(primary).await,
            };
            bursts.iter().for_each(Burst::stop);
            failed.map(|()| Instant::now())
        };
        let granted = async {
            // The name is requested while there is no primary, as an application would do it.
            sleep(BEFORE).await;
            join_all(self.clients.iter().enumerate().map(|(n, client)| self.first_grant(client, tag, round, n))).await
        };
        let replaced = self.deployment.when_replaced(primary.addr());
        let (promoted, failed, granted, replaced) = tokio::join!(watched, fails, granted, replaced);
        let (promoted, failed) = (promoted?, failed?);
        // A client can know the promotion from this moment.
        let known = replaced.map_or(promoted, |(named, _)| named.max(promoted));
        if let Some((named, switched)) = replaced {
            self.account.named(named.saturating_duration_since(promoted), switched.saturating_duration_since(promoted));
        }
        self.account.promoted(promoted, promoted.saturating_duration_since(failed));
        for at in granted {
            let at = at?;
            self.account.first_grant(at.saturating_duration_since(promoted), at.saturating_duration_since(known));
        }
        for burst in bursts {
            burst.contest(&self.clients[1], self.account).await;
        }
        self.restore(primary, round).await
    }

    /// Returns the time at which a name that was free before is granted.
    async fn first_grant(&self, client: &Client, tag: &str, round: u32, n: usize) -> Result<Instant, String> {
        let mut tries = 0;
        loop {
            tries += 1;
            let lock = Lock::new(client, format!("{{{tag}}}:fresh:{round}:{n}:{tries}"));
            match timeout(PATIENCE, lock.acquire().timeout(PATIENCE)).await {
                Ok(Ok(guard)) => {
                    let at = Instant::now();
                    let _ = guard.release().await;
                    return Ok(at);
                }
                // The request was sent to the failed primary: retry with another name.
                Ok(Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))) => {}
                Ok(Err(error)) => return Err(format!("{error:?}")),
                Err(_) => return Err("no grant within a minute".into()),
            }
        }
    }

    /// Restores the failed server as a replica, and checks that none of our clients sends scripts
    /// to it.
    async fn restore(&self, former: &redgrid_testkit::RedisServer, round: u32) -> Result<(), String> {
        match self.fault {
            Fault::Kill => former.restart_empty().await.map_err(|error| error.to_string())?,
            Fault::Stop => former.resume().await.map_err(|error| error.to_string())?,
            Fault::Plan => {}
        }
        let (scripts, before) = Scripts::of(former, self.fault).await?;
        self.deployment.settled().await?;
        self.account.sent_to_demoted(scripts.count().await?.saturating_sub(before), round);
        Ok(())
    }
}
