//! Being a candidate, and leading.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;
use redgrid_core::config::{LONGEST_LEASE, SHORTEST_LEASE};
use redgrid_core::lock::{AcquireRequest, HoldWatch, LeaseMode, LostReason};
use redgrid_core::{Name, ServerError, Token};

use super::Election;
use super::kind::{LEADING, proclaim};
use crate::acquire::busy;
use crate::driven::driven;
use crate::guard::{LockGuard, LockLost};
use crate::{AcquireError, ReleaseError};

/// The longest that a leader may say of itself: 1,024 bytes, enough for an address and some facts.
const LONGEST_ID: usize = 1024;

/// A candidate: elected when awaited; made by [`Election::campaign`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Campaign {
    election: Election,
    id: Option<Bytes>,
    wait: Option<Duration>,
    watchdog: Option<Duration>,
}

impl Campaign {
    pub(super) fn new(election: Election) -> Self {
        Campaign { election, id: None, wait: None, watchdog: None }
    }

    /// Says who it is, to those who observe: an address, an id, some JSON, up to 1,024 bytes. The client's id unless set.
    #[doc(alias = "Proclaim")]
    pub fn proclaim(mut self, id: impl Into<Bytes>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Waits at most this long to be elected and to have told who it is; zero looks once. As long as it takes unless set.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Leads with leases of this length, renewed every third of it: 100 ms to 30 days; the client's watchdog lease unless set.
    /// Short ones have the next leader sooner after a crash; long ones survive longer pauses.
    #[doc(alias = "watchdog")]
    pub fn auto_renew(mut self, lease: Duration) -> Self {
        self.watchdog = Some(lease);
        self
    }

    async fn run(self) -> Result<Leadership, CampaignError> {
        let Election { client, target } = &self.election;
        let target = target.as_ref().map_err(|invalid| AcquireError::InvalidName(invalid.clone()))?;
        driven(client, &target.name, self.wait, |wait| Campaign { wait, ..self.clone() }.run_once()).await
    }

    async fn run_once(self) -> Result<Leadership, CampaignError> {
        let Election { client, target } = &self.election;
        let target = target.as_ref().map_err(|invalid| AcquireError::InvalidName(invalid.clone()))?;
        let name = target.name.clone();
        let id = self.id.unwrap_or_else(|| client.id().to_owned().into());
        if id.len() > LONGEST_ID {
            return Err(CampaignError::TooLong { name, bytes: id.len() });
        }
        let lease = self.watchdog.unwrap_or(client.watchdog_lease());
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            let (option, expected) = ("auto_renew", "100 ms to 30 days");
            return Err(AcquireError::InvalidArgument { name, option, expected, got: lease }.into());
        }
        // A wait of zero is one look.
        let once = self.wait.is_some_and(|wait| wait.is_zero());
        let request = AcquireRequest {
            lease: LeaseMode::Renewed(lease),
            holder: None,
            at_least: Duration::ZERO,
            max_hold: None,
            once,
            wait: self.wait.filter(|wait| !wait.is_zero()),
            durability: client.durability(),
            reenters: true,
            backoff: None,
        };
        let clock = client.clock();
        let until = request.wait.map_or(Instant::MAX, |wait| clock.now() + wait);
        let elected = client.enter(&LEADING, target, request)?.outcome().await?;
        let Some(grant) = elected else {
            return Err(busy(name, client.holds(&LEADING, target)).into());
        };
        // Dropped anywhere below, it resigns.
        let proclaimed = tokio::select! {
            biased;
            proclaimed = client.run::<bool>(proclaim(target, grant.field(), grant.token(), id)) => proclaimed,
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
    /// Dropping it ends the candidacy; who has just been elected resigns in the background.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The proof of being elected. Dropping it resigns in the background; [`Leadership::resign`] waits and tells.
///
/// Its lease is renewed while it lives. A leader stops to believe before the server can let another be elected.
#[must_use = "dropping it resigns"]
#[derive(Debug)]
pub struct Leadership(LockGuard);

impl Leadership {
    /// The name of the election.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// The term: higher than that of every leader before. It is a fencing token: hand it to what is written to.
    pub fn term(&self) -> Token {
        self.0.token()
    }

    /// Whether it may be believed that this one leads at this instant, by our own clock and with a margin. Asks nobody.
    #[doc(alias = "hasLeadership")]
    pub fn is_leader(&self) -> bool {
        self.0.is_held()
    }

    /// How long that may be believed without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Completes when leadership is no longer certain: not confirmed in time, gone from the server, or taken by force.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.0.lost().await
    }

    /// A view of it for other tasks. It does not keep leadership.
    pub fn watch(&self) -> HoldWatch {
        self.0.watch()
    }

    /// Runs `work` while this one leads, and drops it when leadership is lost.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when it was lost first; the work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work; this one still leads.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        self.0.run(work).await
    }

    /// Gives leadership back and waits for the server's answer.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before: somebody else may have led.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it resigns in the background.
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }
}

/// Why a candidate was not elected. It does not lead.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The lock was not acquired; with [`AcquireError::TimedOut`], others led all the time, and with [`AcquireError::Lost`],
    /// leadership was lost as soon as it was had.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// Elected, and it could not be told who it is; leadership is being given back.
    #[error("elected for `{name}`, and could not proclaim it")]
    NotProclaimed {
        /// The election.
        name: Name,
        /// What stood in the way.
        #[source]
        source: ServerError,
    },
    /// What the candidate says of itself is too long. Nothing was asked.
    #[error("a candidate for `{name}` says at most 1024 bytes of itself, not {bytes}")]
    TooLong {
        /// The election.
        name: Name,
        /// How long it is.
        bytes: usize,
    },
}
