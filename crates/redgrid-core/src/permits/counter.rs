//! How many permits a semaphore has: to set, to change and to ask, for everybody.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::exchange::Source;
use super::stock::{PermitId, millis};
use crate::connection::{Client, FromReply, Request};
use crate::error::ServerError;
use crate::name::InvalidName;
use crate::once::OnceScript;
use crate::script::{BulkScript, Script};

static SET: OnceScript<2> = OnceScript::new("permits/set", include_str!("scripts/set.lua"));
static ADD: OnceScript<1> = OnceScript::new("permits/add", include_str!("scripts/add.lua"));
static DRAIN: OnceScript<1> = OnceScript::new("permits/drain", include_str!("scripts/drain.lua"));
static COUNT: Script<2> = Script::new("permits/count", include_str!("scripts/count.lua"));
static EXTEND: BulkScript = BulkScript::new("permits/extend", include_str!("scripts/extend.lua"));
static RETURN: Script<2> = Script::new("permits/return", include_str!("scripts/return.lua"));

/// How many permits a semaphore has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Those that are left; fewer than none where some were taken away that are held. `None` where none were ever set.
    pub available: Option<i64>,
    /// Those that are held with a lease.
    pub leased: u64,
}

/// What became of a permit that was given back by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// It was held until now.
    Released,
    /// Its lease had ended, and others may have had it.
    Expired,
    /// It is not known: given back before, or its lease is long over.
    Unknown,
}

/// A semaphore's client and name, as its handles keep them.
#[derive(Clone)]
pub struct Counter {
    /// The client.
    pub client: Client,
    /// The semaphore; an invalid name is told by the first call.
    pub source: Result<Arc<Source>, InvalidName>,
}

impl Counter {
    /// The semaphore with this name.
    pub fn new(client: &Client, name: impl AsRef<str>, leased: bool) -> Self {
        Counter { client: client.clone(), source: Source::new(client, name, leased).map(Arc::new) }
    }

    /// The same semaphore, whose permits have leases or do not.
    #[must_use]
    pub fn leased(self, leased: bool) -> Self {
        self.with(|source| source.leased = leased)
    }

    /// The same semaphore, where those who wait are served in the order of asking.
    #[must_use]
    pub fn fair(self) -> Self {
        self.with(|source| source.fair = true)
    }

    fn with(mut self, change: impl FnOnce(&mut Source)) -> Self {
        if let Ok(source) = &mut self.source {
            change(Arc::make_mut(source));
        }
        self
    }

    fn source(&self) -> Result<&Arc<Source>, ServerError> {
        self.source.as_ref().map_err(|invalid| ServerError::not_sent(invalid.to_string()))
    }

    /// Sets how many permits there are; `anew` also where some were set before. Tells whether that changed anything.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been done.
    pub async fn set(&self, permits: u64, anew: bool, lifetime: Option<Duration>) -> Result<bool, ServerError> {
        let source = self.source()?;
        let call = SET.with([source.key.clone(), source.leases.clone()]).publish_here().arg(source.channel.clone());
        let call = call.arg(permits.to_string()).arg(if anew { "1" } else { "0" });
        let call = call.arg(lifetime.map(|lifetime| millis(lifetime).to_string()).unwrap_or_default());
        Ok(self.client.run_once::<Vec<i64>>(call).await?.first() == Some(&1))
    }

    /// Adds permits for everybody, or takes some away. Tells how many are left; `None` where none were set, and that was
    /// asked for.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been done.
    pub async fn add(&self, permits: i64, if_set: bool) -> Result<Option<i64>, ServerError> {
        let source = self.source()?;
        let call = ADD.with([source.key.clone()]).publish_here().arg(source.channel.clone());
        let call = call.int(permits).arg(if if_set { "1" } else { "0" });
        let answer: Vec<i64> = self.client.run_once(call).await?;
        Ok(answer.get(1).copied().filter(|_| answer.first() == Some(&1)))
    }

    /// Takes all permits that are left.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been done.
    pub async fn drain(&self) -> Result<u64, ServerError> {
        let answer: Vec<u64> = self.client.run_once(DRAIN.with([self.source()?.key.clone()])).await?;
        Ok(answer.first().copied().unwrap_or(0))
    }

    /// How many permits there are.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    pub async fn count(&self) -> Result<Counts, ServerError> {
        let source = self.source()?;
        let call = COUNT.with([source.key.clone(), source.leases.clone()]).reads();
        let (set, available, leased): (bool, i64, u64) = self.client.run(call).await?;
        Ok(Counts { available: set.then_some(available), leased })
    }

    /// Sets the lease of permits from now on. Tells of each whether it was held.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been done.
    pub async fn extend(&self, ids: &[PermitId], lease: Duration) -> Result<Vec<bool>, ServerError> {
        extend(&self.client, self.source()?, ids, lease).await
    }

    /// Gives a permit back by its id, whoever has it.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been done.
    pub async fn give_back(&self, id: PermitId) -> Result<Returned, ServerError> {
        let source = self.source()?;
        let call = RETURN.with([source.key.clone(), source.leases.clone()]);
        let call = call.arg(Bytes::copy_from_slice(id.as_bytes())).publish_here().arg(source.channel.clone());
        Ok(match self.client.run::<i64>(call).await? {
            1 => Returned::Released,
            0 => Returned::Expired,
            _ => Returned::Unknown,
        })
    }

    /// Deletes the semaphore, and with it the leases of those who hold permits. Tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`ServerError`] says whether it may have been done.
    pub async fn delete(&self) -> Result<bool, ServerError> {
        let source = self.source()?;
        let request = Request::command("DEL").keys([source.key.clone(), source.leases.clone()]);
        Ok(u64::from_reply(self.client.run(request).await?)? > 0)
    }
}

/// Sets the lease of permits from now on.
pub(super) async fn extend(
    client: &Client,
    source: &Source,
    ids: &[PermitId],
    lease: Duration,
) -> Result<Vec<bool>, ServerError> {
    let mut call = EXTEND.with([source.leases.clone()]).not_after_here().int(millis(lease));
    for id in ids {
        call = call.arg(Bytes::copy_from_slice(id.as_bytes()));
    }
    match client.run::<Option<String>>(call.idempotent()).await? {
        Some(kept) => Ok(kept.bytes().map(|flag| flag == b'1').collect()),
        None => Err(ServerError::not_sent("the server found the request too late")),
    }
}
