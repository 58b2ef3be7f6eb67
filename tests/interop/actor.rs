//! A thread of the Java process, which is a holder for Redisson.

use std::sync::Arc;
use std::time::Duration;

use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::redisson::Redisson;

/// One thread of Redisson. It runs one verb at a time. A test can begin an acquire, and await its
/// end later.
#[derive(Debug)]
pub(crate) struct Actor {
    name: String,
    redisson: Arc<Redisson>,
    lines: UnboundedReceiver<String>,
    /// The prefix of its verbs, which chooses the kind of Redisson's locks for a name.
    kind: &'static str,
}

/// An exception that Redisson threw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Thrown {
    pub(crate) class: String,
    pub(crate) message: String,
}

impl Actor {
    pub(crate) fn new(name: String, redisson: Arc<Redisson>, lines: UnboundedReceiver<String>) -> Actor {
        Actor { name, redisson, lines, kind: "" }
    }

    /// Returns the same thread, which uses the fair lock of a name from now on.
    pub(crate) fn fair(self) -> Actor {
        Actor { kind: "fair:", ..self }
    }

    /// Calls `lock()`, and waits until the lock is acquired.
    pub(crate) async fn lock(&mut self, name: &str) {
        self.begin_lock(name).await;
        self.entered().await;
    }

    /// Calls `lock(lease)`, and waits until the lock is acquired.
    pub(crate) async fn lock_for(&mut self, name: &str, lease: Duration) {
        self.ask(&["lock", name, &millis(lease)]).await.unwrap();
    }

    /// Begins `lock()`, and does not wait for it.
    pub(crate) async fn begin_lock(&mut self, name: &str) {
        self.begin(&["lock", name]).await;
    }

    /// Waits until the lock that was begun is acquired.
    pub(crate) async fn entered(&mut self) {
        self.done().await.unwrap();
    }

    /// Waits until the thread sleeps: Redisson has subscribed and has checked again. Only a message
    /// or the end of the lease wakes it.
    pub(crate) async fn until_asleep(&self) {
        let mut other = self.redisson.actor();
        wait_until(SOON, async || other.value(&["sleeps", &self.name]).await).await;
    }

    /// Returns whether the request that was begun has no answer yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.lines.is_empty()
    }

    /// `tryLock(wait, -1)`.
    pub(crate) async fn try_lock(&mut self, name: &str, wait: Duration) -> bool {
        self.value(&["tryLock", name, &millis(wait), "-1"]).await
    }

    /// Begins `tryLock(wait, -1)`, and does not wait for it.
    pub(crate) async fn begin_try_lock(&mut self, name: &str, wait: Duration) {
        self.begin(&["tryLock", name, &millis(wait), "-1"]).await;
    }

    /// `unlock()`; false if Redisson reports that this thread does not hold the lock.
    pub(crate) async fn unlock(&mut self, name: &str) -> bool {
        match self.ask(&["unlock", name]).await {
            Ok(_) => true,
            Err(thrown) if thrown.class == "IllegalMonitorStateException" => false,
            Err(thrown) => panic!("unlock threw {thrown:?}"),
        }
    }

    /// `forceUnlock()`.
    pub(crate) async fn force_unlock(&mut self, name: &str) -> bool {
        self.value(&["forceUnlock", name]).await
    }

    /// `isLocked()`.
    pub(crate) async fn is_locked(&mut self, name: &str) -> bool {
        self.value(&["isLocked", name]).await
    }

    /// `isHeldByCurrentThread()`.
    pub(crate) async fn is_held(&mut self, name: &str) -> bool {
        self.value(&["isHeld", name]).await
    }

    /// `getHoldCount()`: the holds of this thread.
    pub(crate) async fn hold_count(&mut self, name: &str) -> u64 {
        self.value(&["holdCount", name]).await
    }

    /// `remainTimeToLive()` in milliseconds; negative when the lock is free.
    pub(crate) async fn time_to_live(&mut self, name: &str) -> i64 {
        self.value(&["ttl", name]).await
    }

    /// Returns the thread's id, as in its holder field.
    pub(crate) async fn thread(&mut self) -> u64 {
        self.value(&["thread", "-"]).await
    }

    /// Begins to increment a counter `times` times, each time under the lock; does not wait for the
    /// end.
    pub(crate) async fn begin_count(&mut self, name: &str, counter: &str, times: u64) {
        self.begin(&["count", name, counter, &times.to_string()]).await;
    }

    /// Begins a verb of `Variants.java`, and does not wait for it.
    pub(crate) async fn begin_verb(&mut self, verb: &str, name: &str) {
        self.begin(&[verb, name]).await;
    }

    /// Begins a verb of `Variants.java` with an argument, and does not wait for it.
    pub(crate) async fn begin_verb_with(&mut self, verb: &str, name: &str, more: &str) {
        self.begin(&[verb, name, more]).await;
    }

    /// Runs a verb of `Variants.java`, and returns its answer.
    pub(crate) async fn verb(&mut self, verb: &str, name: &str) -> Result<String, Thrown> {
        self.ask(&[verb, name]).await
    }

    /// `tryLock(wait)` of a kind of lock.
    pub(crate) async fn try_verb(&mut self, verb: &str, name: &str, wait: Duration) -> String {
        self.ask(&[verb, name, &millis(wait)]).await.unwrap()
    }

    /// Runs a verb of a latch with its numbers, and returns its answer.
    pub(crate) async fn latch(&mut self, verb: &str, name: &str, numbers: &[u64]) -> String {
        let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
        let verb = format!("latch.{verb}");
        let words = [&verb, name].into_iter().chain(numbers.iter().map(String::as_str));
        self.ask(&words.collect::<Vec<_>>()).await.unwrap()
    }

    /// Runs a verb of an id generator with its numbers, and returns its answer.
    pub(crate) async fn ids(&mut self, verb: &str, name: &str, numbers: &[i64]) -> String {
        self.begin_ids(verb, name, numbers).await;
        self.done().await.unwrap()
    }

    /// Begins a verb of an id generator, and does not wait for it.
    pub(crate) async fn begin_ids(&mut self, verb: &str, name: &str, numbers: &[i64]) {
        let numbers: Vec<_> = numbers.iter().map(i64::to_string).collect();
        let verb = format!("ids.{verb}");
        let words = [&verb, name].into_iter().chain(numbers.iter().map(String::as_str));
        self.begin(&words.collect::<Vec<_>>()).await;
    }

    /// Waits until the thread sleeps at the latch: Redisson has subscribed and has checked again.
    /// Only a message wakes it.
    pub(crate) async fn until_waiting_for_a_latch(&self) {
        let mut other = self.redisson.actor();
        wait_until(SOON, async || other.value(&["sleepsAtLatch", &self.name]).await).await;
    }

    /// Begins to increment a counter `times` times, each time under a lock of the verb's kind; does
    /// not wait for the end.
    pub(crate) async fn begin_count_under(&mut self, verb: &str, name: &str, counter: &str, times: u64) {
        self.begin(&[verb, name, counter, &times.to_string()]).await;
    }

    /// Runs a verb of `Permits.java`, and returns its answer.
    pub(crate) async fn permits(&mut self, verb: &str, name: &str, more: &[String]) -> Result<String, Thrown> {
        self.begin_permits(verb, name, more).await;
        self.done().await
    }

    /// Begins a verb of `Permits.java`, and does not wait for it.
    pub(crate) async fn begin_permits(&mut self, verb: &str, name: &str, more: &[String]) {
        let more = more.iter().map(String::as_str);
        self.begin(&[verb, name].into_iter().chain(more).collect::<Vec<_>>()).await;
    }

    /// Runs a verb of `Numbers.java`, and returns its answer.
    pub(crate) async fn number(&mut self, verb: &str, name: &str, more: &[&str]) -> Result<String, Thrown> {
        self.begin_number(verb, name, more).await;
        self.done().await
    }

    /// Begins a verb of `Numbers.java`, and does not wait for it.
    pub(crate) async fn begin_number(&mut self, verb: &str, name: &str, more: &[&str]) {
        self.begin(&[&[verb, name], more].concat()).await;
    }

    /// Runs a verb of `Adders.java`, and returns its answer.
    pub(crate) async fn adder(&mut self, verb: &str, name: &str, more: &[&str]) -> Result<String, Thrown> {
        self.ask(&[&[verb, name], more].concat()).await
    }

    /// Runs a verb of `Values.java`, and returns its answer.
    pub(crate) async fn value_of(&mut self, verb: &str, name: &str, more: &[&str]) -> String {
        self.ask(&[&[verb, name], more].concat()).await.unwrap()
    }

    /// Runs a verb of `Values.java`, and returns its answer or Redisson's exception.
    pub(crate) async fn try_value_of(&mut self, verb: &str, name: &str, more: &[&str]) -> Result<String, Thrown> {
        self.ask(&[&[verb, name], more].concat()).await
    }

    /// Begins a verb of `Values.java`, and does not wait for it.
    pub(crate) async fn begin_value(&mut self, verb: &str, name: &str, more: &[&str]) {
        self.begin(&[&[verb, name], more].concat()).await;
    }

    /// Waits for the answer to the verb that was begun.
    pub(crate) async fn done(&mut self) -> Result<String, Thrown> {
        self.done_within(SOON).await
    }

    /// Waits at most `time` for the answer to the verb that was begun.
    pub(crate) async fn done_within(&mut self, time: Duration) -> Result<String, Thrown> {
        let line = self.line(time).await;
        let mut words = line.splitn(3, '\t').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        match word().as_str() {
            "ok" => Ok(word()),
            "error" => Err(Thrown { class: word(), message: word() }),
            _ => panic!("{} said {line:?}", self.name),
        }
    }

    async fn begin(&mut self, words: &[&str]) {
        let [verb, rest @ ..] = words else { return };
        let verb = format!("{}{verb}", self.kind);
        self.redisson.send(&[&[self.name.as_str(), &verb], rest].concat()).await;
        let line = self.line(SOON).await;
        assert_eq!(line, "started", "{} did not start {words:?}", self.name);
    }

    async fn ask(&mut self, words: &[&str]) -> Result<String, Thrown> {
        self.begin(words).await;
        self.done().await
    }

    async fn value<T: std::str::FromStr<Err: std::fmt::Debug>>(&mut self, words: &[&str]) -> T {
        self.ask(words).await.unwrap().parse().unwrap()
    }

    async fn line(&mut self, time: Duration) -> String {
        let line = tokio::time::timeout(time, self.lines.recv()).await;
        line.unwrap_or_else(|_| panic!("{} had no answer in time", self.name)).expect("Redisson is alive")
    }
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}
