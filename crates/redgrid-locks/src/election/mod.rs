//! Leader election among processes: the holder of a lock leads, and proclaims an id.

mod campaign;
mod kind;
mod observation;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::lock::{LockKeys, TakeoverFrom};
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, ServerError, Token};

pub use campaign::{Campaign, CampaignError, Leadership};
pub use observation::Observation;

use crate::AcquireError;
use crate::inspect::LockHolder;
use crate::lock::set_family;
use crate::takeover::{ForcedRelease, default_request, take_over_and_release};

/// An election of one leader at a time, over all processes that use the same server.
///
/// It is based on a lock, and has the guarantees of one. The term is the fencing token of the
/// grant.
///
/// It is cheap to clone, and clones are the same election. Creating one sends no request: an
/// invalid name is reported by the first call.
///
/// ```no_run
/// # async fn demo(client: &redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::Election;
///
/// let election = Election::new(client, "scheduler");
/// let leadership = election.campaign().proclaim("10.0.0.7:8080").await?; // until elected
/// while leadership.is_leader() {
///     // … the leader's work, which sends `leadership.term()` with each write …
/// #   break;
/// }
/// leadership.resign().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "LeaderLatch")]
#[doc(alias = "LeaderSelector")]
#[derive(Clone, Debug)]
pub struct Election {
    client: Client,
    target: Result<Arc<LockKeys>, InvalidName>,
}

/// An elected leader, as it has proclaimed itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Its proclaimed id; that of its client unless it set one.
    pub id: Bytes,
    /// Its term, which is higher than that of every earlier leader.
    pub term: Token,
    /// Remaining time of its lease on the server, unless it is renewed.
    pub remaining: Duration,
}

impl Leader {
    /// Returns its proclaimed id as text.
    pub fn id_text(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }
}

impl Election {
    /// Returns the election with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let target = Name::new(name).map(|name| {
            let key = client.key(&name);
            let channel = companion("redisson_lock__channel", &key);
            let more = [companion("redgrid_leader", &key), companion("redgrid_leader__channel", &key)].into();
            Arc::new(LockKeys { name, key, channel, more, family: "" })
        });
        Election { client: client.clone(), target }
    }

    /// Returns the same election with the label `family` in metrics and spans, as
    /// [`Lock::family`](crate::Lock::family).
    #[must_use]
    pub fn family(mut self, family: &'static str) -> Self {
        set_family(&mut self.target, family);
        self
    }

    /// Starts a candidacy. It waits to be elected. The wait is unlimited unless
    /// [`Campaign::timeout`] is set.
    pub fn campaign(&self) -> Campaign {
        Campaign::new(self.clone())
    }

    /// Returns the leader at this instant; `None` while there is none, or it has not proclaimed
    /// itself yet.
    ///
    /// A holder that acquired the lock of that name without a campaign is not a leader.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getLeader")]
    pub async fn leader(&self) -> Result<Option<Leader>, ServerError> {
        let target = self.query_target()?;
        let (left, term, id) = self.client.run::<(i64, Bytes, Bytes)>(kind::leader_request(target)).await?;
        let term = std::str::from_utf8(&term).ok().and_then(|term| term.parse().ok());
        let remaining = u64::try_from(left).ok().map(Duration::from_millis);
        Ok(term.zip(remaining).map(|(term, remaining)| Leader { id, term: Token::new(term), remaining }))
    }

    /// Ends the leadership only while this holder leads. Returns what became of it.
    ///
    /// The holder is one that [`Lock::inspect`](crate::Lock::inspect) returned for the lock of this
    /// name. Comparison and takeover are one step on the server: a leader that was elected
    /// meanwhile stays. The former leader and the observers are notified. The next leader is
    /// elected half a second later.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the leadership may or may not be ended.
    pub async fn depose_if(&self, holder: &LockHolder) -> Result<ForcedRelease, AcquireError> {
        let target = self.target.as_ref().map_err(|invalid| AcquireError::from(invalid.clone()))?;
        let from = TakeoverFrom::Holder(holder.field().into());
        take_over_and_release(&self.client, &kind::LEADING, target, default_request(&self.client), from).await
    }

    /// Follows the leader, and its changes from now on.
    ///
    /// ```no_run
    /// # async fn demo(election: redgrid_locks::Election) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut changes = election.observe();
    /// loop {
    ///     match changes.next().await? {
    ///         Some(leader) => println!("{} leads, term {}", leader.id_text(), leader.term),
    ///         None => println!("no leader"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn observe(&self) -> Observation {
        Observation::new(self.clone())
    }

    /// Returns the operations that every object has, including the proclaimed leader: as
    /// [`Lock::object`](crate::Lock::object).
    pub fn object(&self) -> Object {
        let name = self.target.as_ref().map(|target| target.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::election)
    }

    fn query_target(&self) -> Result<&Arc<LockKeys>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        self.target.as_ref().map_err(refused)
    }
}
