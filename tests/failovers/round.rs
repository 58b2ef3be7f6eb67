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

/// A failover that takes longer does not come about any more.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rounds<'a> {
    pub(crate) deployment: &'a Deployment,
    pub(crate) clients: &'a [Client; 2],
    pub(crate) account: &'a Arc<Account>,
    pub(crate) durable: Durability,
    pub(crate) fault: Fault,
}

impl Rounds<'_> {
    pub(crate) async fn play(&self, round: u32) -> Result<(), String> {
        // In a cluster, each of the three primaries in turn: these are in different thirds of the
        // slots.
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
            // Asked for while there is no primary, as an application would.
            sleep(BEFORE).await;
            join_all(self.clients.iter().enumerate().map(|(n, client)| self.first_grant(client, tag, round, n))).await
        };
        let told = self.deployment.reported_another_than(primary.addr());
        let (promoted, failed, granted, told) = tokio::join!(watched, fails, granted, told);
        let (promoted, failed) = (promoted?, failed?);
        // From here on a client can know it.
        let known = told.map_or(promoted, |(named, _)| named.max(promoted));
        if let Some((named, switched)) = told {
            self.account.told(named.saturating_duration_since(promoted), switched.saturating_duration_since(promoted));
        }
        self.account.promoted(promoted, promoted.saturating_duration_since(failed));
        for at in granted {
            let at = at?;
            self.account.first_grant(at.saturating_duration_since(promoted), at.saturating_duration_since(known));
        }
        for burst in bursts {
            burst.contest(&self.clients[1], self.account).await;
        }
        self.back(primary, round).await
    }

    /// When a name that nobody held before is granted.
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
                // It had left for the one that failed: asked again, under another name.
                Ok(Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))) => {}
                Ok(Err(error)) => return Err(format!("{error:?}")),
                Err(_) => return Err("no grant within a minute".into()),
            }
        }
    }

    /// The one that failed comes back as a replica, and no client of ours asks it anything.
    async fn back(&self, former: &redgrid_testkit::RedisServer, round: u32) -> Result<(), String> {
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
