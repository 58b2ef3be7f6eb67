//! Candidates and leaders.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{ClientExt, LockExt};
use redgrid_core::clock::Instant;
use redgrid_core::config::{LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::lock::{AcquireRequest, HoldWatch, LeaseMode, LostReason, PendingAcquire};
use redgrid_core::{IntoArg, Name, ServerError, Token};

use super::Election;
use super::kind::{LEADING, proclaim_request};
use crate::acquire::busy;
use crate::drive::drive;
use crate::lock::LockGuard;
use crate::with::LockLost;
use crate::{AcquireError, ReleaseError};

/// Maximum length of a leader's proclaimed id: 1,024 bytes, enough for an address and some facts.
const MAX_ID_BYTES: usize = 1024;

/// A candidacy; awaiting it waits for the election. Made by [`Election::campaign`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Campaign {
    election: Election,
    id: Option<Bytes>,
    wait: Option<Duration>,
    renewed_lease: Option<Duration>,
}

impl Campaign {
    pub(super) fn new(election: Election) -> Self {
        Campaign { election, id: None, wait: None, renewed_lease: None }
    }

    /// Sets the id that the leader proclaims to observers: an address, a name, or JSON, for
    /// example.
    ///
    /// It has up to 1,024 bytes, and is the id of the client unless set.
    #[doc(alias = "Proclaim")]
    pub fn proclaim(mut self, id: impl IntoArg) -> Self {
        self.id = Some(id.into_arg());
        self
    }

    /// Limits the wait for the election and the proclamation; unlimited unless set.
    ///
    /// Zero means one attempt.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets the length of the leases. A lease is renewed after each third of it.
    ///
    /// The length is 100 ms to 30 days, and that of the client's watchdog lease unless set. With
    /// short leases the next leader is elected sooner after a crash. Long ones survive longer
    /// pauses.
    #[doc(alias = "watchdog")]
    pub fn auto_renew(mut self, lease: Duration) -> Self {
        self.renewed_lease = Some(lease);
        self
    }

    async fn campaign(self) -> Result<Leadership, CampaignError> {
        let Election { client, target } = &self.election;
        let target = target.as_ref().map_err(|invalid| AcquireError::from(invalid.clone()))?;
        drive(client, &target.name, self.wait, |wait| Campaign { wait, ..self.clone() }.campaign_once()).await
    }

    async fn campaign_once(self) -> Result<Leadership, CampaignError> {
        let Election { client, target } = &self.election;
        let target = target.as_ref().map_err(|invalid| AcquireError::from(invalid.clone()))?;
        let name = target.name.clone();
        let id = self.id.unwrap_or_else(|| client.id().to_owned().into());
        if id.len() > MAX_ID_BYTES {
            return Err(CampaignError::TooLong { name, bytes: id.len() });
        }
        let lease = self.renewed_lease.unwrap_or(client.watchdog_lease());
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            let (option, expected) = ("auto_renew", "100 ms to 30 days");
            return Err(AcquireError::invalid_argument(&name, option, expected, lease).into());
        }
        // A timeout of zero means one attempt.
        let try_only = self.wait.is_some_and(|wait| wait.is_zero());
        let request = AcquireRequest {
            once: try_only,
            wait: self.wait.filter(|wait| !wait.is_zero()),
            ..AcquireRequest::new(LeaseMode::Renewed(lease), client.durability())
        };
        let clock = client.clock();
        let until = request.wait.map_or(Instant::MAX, |wait| clock.now() + wait);
        let outcome = PendingAcquire::start(client, &LEADING, target, request)?.outcome().await?;
        let Some(grant) = outcome else {
            return Err(busy(name, client.holds(&LEADING, target)).into());
        };
        // If the future is dropped from here on, the leader resigns.
        let proclaimed = tokio::select! {
            biased;
            proclaimed = client.run::<bool>(proclaim_request(target, grant.field(), grant.token(), id)) => proclaimed,
            () = clock.sleep_until(until) => {
                Err(ServerError::Unknown { reason: "the wait was over before an answer came".into() })
            }
        };
        match proclaimed {
            Ok(true) => Ok(Leadership(LockGuard::new(grant))),
            Ok(false) => Err(AcquireError::Lost { name }.into()),
            Err(source) => Err(CampaignError::NotProclaimed { name, source }),
        }
    }
}

impl IntoFuture for Campaign {
    type Output = Result<Leadership, CampaignError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// Dropping the future ends the candidacy. A leader that was just elected resigns in the
    /// background.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.campaign())
    }
}

/// The guard of an elected leader. Dropping it resigns in the background; [`Leadership::resign`]
/// waits for the result.
///
/// The lease is renewed while the guard lives. It becomes invalid before the server can elect
/// another leader.
#[must_use = "dropping it resigns"]
#[derive(Debug)]
pub struct Leadership(LockGuard);

impl Leadership {
    /// Returns the name of the election.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// Returns the term, which is higher than that of every earlier leader.
    ///
    /// It is a fencing token: send it with each write.
    pub fn term(&self) -> Token {
        self.0.token()
    }

    /// Returns whether the leadership is valid at this instant, by the local clock and with a
    /// margin.
    ///
    /// It sends no request.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.0.is_held()
    }

    /// Returns how long the leadership is valid without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Completes when the leadership is no longer certain.
    ///
    /// The reasons are those of [`LostReason`]: its lease was not confirmed in time, it is gone
    /// from the server, it was taken by force, or the client was shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.0.lost().await
    }

    /// Returns a view of the leadership for other tasks, which does not keep it.
    pub fn watch(&self) -> HoldWatch {
        self.0.watch()
    }

    /// Runs `work` while the leadership is held, and drops it when the leadership is lost.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when it was lost before the work completed. The work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The guard keeps the leadership.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        self.0.run(work).await
    }

    /// Resigns and waits for the reply of the server.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the leadership had ended before: there may have been another
    /// leader.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the leader resigns in the background.
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }
}

/// Reason why a candidate was not elected. It does not lead.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The lock was not acquired.
    ///
    /// With [`AcquireError::TimedOut`] there was another leader all the time. With
    /// [`AcquireError::Lost`] the leadership was lost immediately after the election.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The candidate was elected, and its proclamation failed. It is resigning.
    #[error("elected for `{name}`, but cannot proclaim it: {source}")]
    NotProclaimed {
        /// Name of the election.
        name: Name,
        /// The cause.
        #[source]
        source: ServerError,
    },
    /// The proclaimed id is too long. No request was sent.
    #[error("cannot campaign for `{name}`: the id has {bytes} bytes, the limit is 1024")]
    TooLong {
        /// Name of the election.
        name: Name,
        /// Its length in bytes.
        bytes: usize,
    },
}
