//! Electing a leader among processes: whoever holds the lock leads, and says who it is.

mod campaign;
mod kind;
mod observation;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::lock::LockKeys;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, ServerError, Token};

pub use campaign::{Campaign, CampaignError, Leadership};
pub use observation::Observation;

/// One leader at a time, over all processes that reach the same server: on a lock, so all that is said of locks holds. The
/// term is the fencing token of its grant.
///
/// Cheap to clone; clones are the same election. Making one asks nobody: an invalid name is told by the first call.
///
/// ```no_run
/// # async fn demo(client: &redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::Election;
///
/// let election = Election::new(client, "scheduler");
/// let leadership = election.campaign().proclaim("10.0.0.7:8080").await?; // until elected
/// while leadership.is_leader() {
///     // … what only the leader does, with `leadership.term()` for the stores it writes to …
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
pub struct Leader {
    /// What it says of itself; the id of its client where it said nothing.
    pub id: Bytes,
    /// Its term: higher than that of every leader before.
    pub term: Token,
    /// How long it leads unless its lease is renewed, as the server saw it.
    pub remaining: Duration,
}

impl Leader {
    /// What it says of itself, as text.
    pub fn id_text(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }
}

impl Election {
    /// The election with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let target = Name::new(name).map(|name| {
            let key = client.key(&name);
            let channel = companion("redisson_lock__channel", &key);
            let mark = companion("redgrid_wait", &key);
            let more = [companion("redgrid_leader", &key), companion("redgrid_leader__channel", &key)].into();
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag: mark, more })
        });
        Election { client: client.clone(), target }
    }

    /// Becomes a candidate, and waits to be elected as long as it takes or as [`Campaign::timeout`] says.
    pub fn campaign(&self) -> Campaign {
        Campaign::new(self.clone())
    }

    /// Who leads at this instant; `None` while nobody does, or has not said so yet. Whoever holds the lock of that name without
    /// a campaign is not told.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getLeader")]
    pub async fn leader(&self) -> Result<Option<Leader>, ServerError> {
        let target = self.reachable()?;
        let (left, term, id) = self.client.run::<(i64, Bytes, Bytes)>(kind::look(target)).await?;
        let term = std::str::from_utf8(&term).ok().and_then(|term| term.parse().ok());
        let remaining = u64::try_from(left).ok().map(Duration::from_millis);
        Ok(term.zip(remaining).map(|(term, remaining)| Leader { id, term: Token::new(term), remaining }))
    }

    /// Follows who leads, from now on.
    ///
    /// ```no_run
    /// # async fn demo(election: redgrid_locks::Election) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut changes = election.observe();
    /// loop {
    ///     match changes.next().await? {
    ///         Some(leader) => println!("{} leads, term {}", leader.id_text(), leader.term),
    ///         None => println!("nobody leads"),
    ///     }
    /// }
    /// # }
    /// ```
    pub fn observe(&self) -> Observation {
        Observation::new(self.clone())
    }

    /// What every object has, with what the leader says of itself: as [`Lock::object`](crate::Lock::object).
    pub fn object(&self) -> Object {
        let name = self.target.as_ref().map(|target| target.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::election)
    }

    fn reachable(&self) -> Result<&Arc<LockKeys>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        self.target.as_ref().map_err(refused)
    }
}
