//! A semaphore seen by a Java thread, and its state on the server.

use std::fmt::Display;
use std::time::Duration;

use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::{Actor, Thrown};
use crate::fixture::Fixture;

/// The arguments of a method.
pub(crate) type With<'a> = &'a [&'a (dyn Display + Sync)];

/// One thread of Redisson and one semaphore.
#[derive(Debug)]
pub(crate) struct JavaPermits {
    pub(crate) actor: Actor,
    kind: &'static str,
    name: String,
}

impl JavaPermits {
    /// A thread that uses an `RSemaphore`.
    pub(crate) fn plain(actor: Actor, name: &str) -> Self {
        JavaPermits { actor, kind: "plain", name: name.to_owned() }
    }

    /// A thread that uses an `RPermitExpirableSemaphore`.
    pub(crate) fn leased(actor: Actor, name: &str) -> Self {
        JavaPermits { actor, kind: "leased", name: name.to_owned() }
    }

    /// Returns the answer of a method of Redisson, or its exception.
    pub(crate) async fn tries(&mut self, method: &str, with: With<'_>) -> Result<String, Thrown> {
        let (verb, words) = self.words(method, with);
        self.actor.permits(&verb, &self.name, &words).await
    }

    pub(crate) async fn does(&mut self, method: &str, with: With<'_>) -> String {
        self.tries(method, with).await.unwrap()
    }

    pub(crate) async fn number(&mut self, method: &str, with: With<'_>) -> i64 {
        self.does(method, with).await.parse().unwrap()
    }

    pub(crate) async fn is(&mut self, method: &str, with: With<'_>) -> bool {
        self.does(method, with).await.parse().unwrap()
    }

    /// `tryAcquire(permits, 0)` of an `RSemaphore`.
    pub(crate) async fn try_take(&mut self, permits: u64) -> bool {
        self.is("tryAcquire", &[&permits, &0]).await
    }

    /// The counts of an `RPermitExpirableSemaphore`: available, acquired, all.
    pub(crate) async fn counts(&mut self) -> (i64, i64, i64) {
        let available = self.number("availablePermits", &[]).await;
        let acquired = self.number("acquiredPermits", &[]).await;
        (available, acquired, self.number("getPermits", &[]).await)
    }

    /// Begins a method that waits. Returns when the thread sleeps, so that only a message or the
    /// end of a lease wakes it.
    pub(crate) async fn waits(&mut self, method: &str, with: With<'_>) {
        self.begins(method, with).await;
        self.actor.until_asleep().await;
    }

    pub(crate) async fn begins(&mut self, method: &str, with: With<'_>) {
        let (verb, words) = self.words(method, with);
        self.actor.begin_permits(&verb, &self.name, &words).await;
    }

    /// Returns the answer to the method that was begun.
    pub(crate) async fn done(&mut self) -> String {
        self.actor.done().await.unwrap()
    }

    fn words(&self, method: &str, with: With<'_>) -> (String, Vec<String>) {
        (format!("{}.{method}", self.kind), with.iter().map(ToString::to_string).collect())
    }
}

impl Fixture {
    /// Returns a thread of Java and its `RSemaphore` of the scenario's name.
    pub(crate) fn plain(&self) -> JavaPermits {
        JavaPermits::plain(self.java(), &self.name)
    }

    /// Returns a thread of Java and its `RPermitExpirableSemaphore` of the scenario's name.
    pub(crate) fn leased(&self) -> JavaPermits {
        JavaPermits::leased(self.java(), &self.name)
    }

    /// Returns the number on the server.
    pub(crate) async fn left(&self) -> Option<i64> {
        self.observer.get(&self.name).await.unwrap()
    }

    /// Returns the leases on the server: each id, and its end in milliseconds.
    pub(crate) async fn leases(&self) -> Vec<(Vec<u8>, i64)> {
        let key = format!("{{{}}}:timeout", self.name);
        self.observer.query(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]).await.unwrap()
    }

    /// Waits until this many clients are subscribed to the semaphore.
    pub(crate) async fn until_subscribed(&self, clients: u64) {
        let channel = format!("redisson_sc:{{{}}}", self.name);
        let count = async || self.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1;
        wait_until(SOON, async || count().await == clients).await;
    }

    /// Waits until this many leases have ended by the server's clock, but are not removed yet.
    pub(crate) async fn until_leases_over(&self, count: usize) {
        let over = async || {
            let now = i64::try_from(self.server_time().await / 1000).unwrap();
            self.leases().await.iter().filter(|(_, end)| *end < now).count()
        };
        wait_until(SOON, async || over().await == count).await;
    }
}

pub(crate) const MS: Duration = Duration::from_millis(1);
