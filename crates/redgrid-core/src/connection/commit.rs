//! Group commit: waiting, on connections of its own, until what a node has answered is as durable as asked.
//!
//! WAIT blocks its connection, and speaks only of what that connection has written. So everybody who waits shares one tiny
//! write and one WAIT behind it: replication is one stream, and whoever has acknowledged this write has all that the server
//! did before it, on any connection. The next group collects while one is under way; there is no timer.
//!
//! # One connection for each level
//!
//! WAITs of one connection can not overlap, and a group that waits for a dead replica must not hold up those who ask for
//! less. So each *level* in use ([`Level`]: so many replicas, or the disk) has a connection and a queue, nearly always one in
//! all, opened at the first commit of that level and named `<client name>:commit`. Inside a level nothing is held up by a
//! stuck group that could go faster: as long as too few have acknowledged the older write in front, too few have the newer
//! one. Refused: one connection for all with short WAITs in turn. Each group's write moves the goal for the others, and a
//! replica that is late by more than a slice would never be seen to arrive.
//!
//! # What is proof
//!
//! That the grant is in the stream the replicas acknowledged. Fail closed, every commit shows that
//! - the process is the same: the commit connection read the `run_id` of the epoch it answers for, and write and WAIT went over
//!   that very connection (the CLIENT INFO behind them carries the name that only a handshake gives; fred reconnects behind
//!   our back, and a WAIT alone on a fresh connection counts replicas for nothing);
//! - its data is the same: `master_replid`, read in the handshake of the epoch and again behind the WAIT, is unchanged, and the
//!   server is a primary. It changes with every promotion, so a primary that was demoted, copied the data of another and was
//!   promoted again is noticed, though its run id and its connections may live through that. (It also changes when the first
//!   replica joins and after an hour without any: the commits under way then fail for nothing, once.)
//! - the epoch is still the present one, before the write and after the WAIT.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fred::prelude::Value;
use futures_util::future::join4;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Epoch;
use super::link::{Greeting, Link, info_field};
use crate::clock::{Clock, Instant};
use crate::config::{Access, Address, Durability, Settings};
use crate::error::{Code, ServerError};

/// How long the key of a group's write lives: 1 s. It is written for its place in the stream, not to be read.
const KEY_LIVES_MS: i64 = 1000;

/// Why it is not proven that what was answered is as durable as asked. On the primary it stands all the same, unless
/// something else took it back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The time was over, and too few had acknowledged.
    #[error("{}", shortfall(.asked, *.acknowledged))]
    Shortfall {
        /// What was asked.
        asked: Durability,
        /// How many replicas are known to have acknowledged; 0 for [`Durability::Disk`], and for who still stood behind an
        /// earlier write that too few had acknowledged.
        acknowledged: u32,
    },
    /// The server can not give this, however long one waits.
    #[error("the server can not do it: {missing}")]
    Unsupported {
        /// What is missing, in a clause.
        missing: Cow<'static, str>,
    },
    /// The process, its data or the connection is not known to be that of the answer any more.
    #[error("nothing is proven: {reason}")]
    Unproven {
        /// What has changed, in a clause.
        reason: Cow<'static, str>,
    },
    /// The question did not leave, was refused, or got no answer.
    #[error("the server could not be asked, or did not answer")]
    Asking(#[from] ServerError),
}

impl CommitError {
    fn unproven(reason: &'static str) -> Self {
        CommitError::Unproven { reason: reason.into() }
    }

    fn closed() -> Self {
        ServerError::not_sent("the client is shut down").into()
    }
}

fn shortfall(asked: &Durability, acknowledged: u32) -> String {
    match asked {
        Durability::Replicas { at_least, timeout } => {
            format!("{acknowledged} of {at_least} replicas acknowledged within {timeout:?}")
        }
        Durability::Disk { timeout } => format!("it was not synced to the server's disk within {timeout:?}"),
        Durability::Primary => "the primary did not have it".into(),
    }
}

/// The commits of one node.
pub(super) struct Commits {
    commands: Arc<Link>,
    address: Address,
    access: Access,
    settings: Settings,
    clock: Clock,
    name: String,
    /// `None` once closed.
    lanes: Mutex<Option<HashMap<Level, Open>>>,
}

struct Open {
    members: mpsc::UnboundedSender<Member>,
    link: Arc<Link>,
    tasks: [JoinHandle<()>; 2],
}

impl Commits {
    /// Opens nothing yet. `commands` is the connection whose answers are to be proven.
    pub(super) fn new(
        commands: Arc<Link>,
        (address, access): (&Address, &Access),
        settings: &Settings,
        clock: Clock,
        client_name: &str,
    ) -> Self {
        Commits {
            commands,
            address: address.clone(),
            access: access.clone(),
            settings: settings.clone(),
            clock,
            name: format!("{client_name}:commit"),
            lanes: Mutex::new(Some(HashMap::new())),
        }
    }

    pub(super) async fn commit(&self, since: Epoch, asked: Durability, tag: &[u8]) -> Result<(), CommitError> {
        let Some((level, timeout)) = Level::of(asked) else { return Ok(()) };
        // Looked at here, too, so that no connection is opened for what can not be proven anyway.
        provable(&self.commands, &since)?;
        let (answer, answered) = oneshot::channel();
        let member = Member { since, asked, tag: Bytes::copy_from_slice(tag), by: self.clock.now() + timeout, answer };
        self.lane(level)?.send(member).map_err(|_| CommitError::closed())?;
        answered.await.unwrap_or_else(|_| Err(CommitError::closed()))
    }

    fn lane(&self, level: Level) -> Result<mpsc::UnboundedSender<Member>, CommitError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(|p| p.into_inner());
        let lanes = lanes.as_mut().ok_or_else(CommitError::closed)?;
        if let Some(open) = lanes.get(&level) {
            return Ok(open.members.clone());
        }
        // One WAIT may take `timeout`. Three times that for a command leaves the connection alive meanwhile: it is given up
        // for silence after two thirds, and the PING that watches it may queue behind a WAIT.
        let slice = self.settings.timeout;
        let settings = Settings { timeout: slice * 3, ..self.settings.clone() };
        let (address, clock) = ((&self.address, &self.access), self.clock.clone());
        let (link, watching) = Link::open(address, &settings, clock.clone(), self.name.clone(), Greeting::Identity)?;
        let (members, waiting) = mpsc::unbounded_channel();
        let commands = Arc::clone(&self.commands);
        let lane =
            Lane { level, link: Arc::clone(&link), commands, clock, slice, waiting, queue: Vec::new(), groups: 0 };
        let serving = tokio::spawn(lane.run());
        lanes.insert(level, Open { members: members.clone(), link, tasks: [watching, serving] });
        Ok(members)
    }

    /// Ends the connections; who waits is told that the client is shut down.
    pub(super) async fn close(&self) {
        let lanes = self.lanes.lock().unwrap_or_else(|p| p.into_inner()).take().unwrap_or_default();
        for open in lanes.values() {
            open.link.close();
        }
        for task in lanes.into_values().flat_map(|open| open.tasks) {
            let _ = task.await;
        }
    }
}

/// What shares a connection: those whose WAIT is the same but for its time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Level {
    Replicas(u32),
    Disk,
}

impl Level {
    /// `None` where there is nothing to wait for.
    fn of(asked: Durability) -> Option<(Level, Duration)> {
        match asked {
            Durability::Primary | Durability::Replicas { at_least: 0, .. } => None,
            Durability::Replicas { at_least, timeout } => Some((Level::Replicas(at_least), timeout)),
            Durability::Disk { timeout } => Some((Level::Disk, timeout)),
        }
    }

    /// How many acknowledgements make it.
    fn needs(self) -> u32 {
        match self {
            Level::Replicas(at_least) => at_least,
            Level::Disk => 1,
        }
    }

    /// What a refusal means.
    fn refused(self, error: ServerError) -> CommitError {
        match (self, &error) {
            (Level::Disk, ServerError::Refused { code: Code::Other, message })
                if message.contains("unknown command") =>
            {
                CommitError::Unsupported { missing: "WAITAOF needs Redis 7.2 or newer, or Valkey".into() }
            }
            (Level::Disk, ServerError::Refused { code: Code::Other, message }) if message.contains("appendonly") => {
                CommitError::Unsupported { missing: "it keeps no append-only file (`appendonly` is `no`)".into() }
            }
            _ => error.into(),
        }
    }
}

/// Somebody who waits.
struct Member {
    since: Epoch,
    asked: Durability,
    tag: Bytes,
    by: Instant,
    answer: oneshot::Sender<Result<(), CommitError>>,
}

/// One level: its connection, and who waits for it.
struct Lane {
    level: Level,
    link: Arc<Link>,
    commands: Arc<Link>,
    clock: Clock,
    /// How long one WAIT takes at most; a longer wait is made of several. So a dead connection is noticed in a bounded time.
    slice: Duration,
    waiting: mpsc::UnboundedReceiver<Member>,
    queue: Vec<Member>,
    groups: u64,
}

impl Lane {
    async fn run(mut self) {
        let link = Arc::clone(&self.link);
        tokio::select! {
            () = self.serve() => {}
            () = link.closing() => {}
        }
        link.close();
    }

    async fn serve(&mut self) {
        loop {
            if self.queue.is_empty() {
                match self.waiting.recv().await {
                    Some(member) => self.queue.push(member),
                    None => return,
                }
            }
            while let Ok(member) = self.waiting.try_recv() {
                self.queue.push(member);
            }
            let group = std::mem::take(&mut self.queue);
            self.settle(group).await;
        }
    }

    /// One group: one write, and WAITs behind it until each member has its answer.
    async fn settle(&mut self, mut group: Vec<Member>) {
        self.groups += 1;
        let mut written = None;
        // The last connection that was lost under this group, and how.
        let (mut lost, mut trouble) = (0, None);
        loop {
            settle_some(&mut group, |member| provable(&self.commands, &member.since).err().map(Err));
            let Some(by) = group.iter().map(|member| member.by).min() else { return };
            let Some(epoch) = self.connection(lost, by).await else {
                let why = trouble.clone().unwrap_or_else(|| self.link.down());
                self.give_up(&mut group, &why);
                continue;
            };
            if group.iter().any(|member| member.since.run_id != epoch.run_id) {
                let elsewhere = CommitError::unproven("the commit connection leads to another server process");
                settle_some(&mut group, |member| (member.since.run_id != epoch.run_id).then(|| Err(elsewhere.clone())));
                // One of the two connections is the older. This is the one that nobody else depends on.
                self.renew().await;
                continue;
            }
            let question = Question {
                level: self.level,
                tag: group.first().map(|member| member.tag.clone()).filter(|_| written != Some(epoch.connection)),
                number: self.groups,
                wait: self.wait_for(by),
                history: self.commands.history(),
            };
            // Its time, and a slice for the way: later, this connection is not believed.
            let link = Arc::clone(&self.link);
            let asking = tokio::time::timeout(question.wait + self.slice, question.ask(&link));
            let Ok(answer) = self.meanwhile(asking).await else {
                let silent = ServerError::unknown("the server did not answer in time");
                settle_some(&mut group, |_| Some(Err(silent.clone().into())));
                return self.renew().await;
            };
            let broken = match answer {
                Ok(acknowledged) if self.link.epoch().borrow().as_ref() == Some(&epoch) => {
                    written = Some(epoch.connection);
                    let now = self.clock.now();
                    settle_some(&mut group, |member| match provable(&self.commands, &member.since) {
                        Ok(()) => verdict(member.asked, self.level.needs(), acknowledged, member.by <= now),
                        Err(error) => Some(Err(error)),
                    });
                    None
                }
                Ok(_) => Some(ServerError::unknown("the commit connection was lost")),
                Err(Failure::Contact(error)) => Some(error),
                Err(Failure::Changed) => {
                    let changed = "the server's role or its replication history has changed";
                    settle_some(&mut group, |_| Some(Err(CommitError::unproven(changed))));
                    if self.commands.history() == question.history {
                        self.commands.greet_again(changed);
                    }
                    None
                }
                Err(Failure::Refused { error, writing }) => {
                    // A slot that is elsewhere is the trouble of those who came with its tag.
                    let all = !writing || !is_elsewhere(&error);
                    settle_some(&mut group, |member| {
                        let concerned = all || question.tag.as_ref() == Some(&member.tag);
                        concerned.then(|| Err(self.level.refused(error.clone())))
                    });
                    None
                }
            };
            if let Some(why) = broken {
                self.give_up(&mut group, &why);
                (lost, trouble) = (epoch.connection, Some(why));
            }
        }
    }

    /// Tells those whose time is over why they were not asked about.
    fn give_up(&self, group: &mut Vec<Member>, why: &ServerError) {
        let now = self.clock.now();
        settle_some(group, |member| (member.by <= now).then(|| Err(why.clone().into())));
    }

    async fn renew(&mut self) {
        let link = Arc::clone(&self.link);
        self.meanwhile(link.renew()).await;
    }

    /// The connection, a later one than `after`; `None` when there is none at `by`.
    async fn connection(&mut self, after: u64, by: Instant) -> Option<Epoch> {
        let (mut epochs, clock) = (self.link.epoch(), self.clock.clone());
        self.meanwhile(async move {
            tokio::select! {
                biased;
                up = epochs.wait_for(|epoch| epoch.as_ref().is_some_and(|epoch| epoch.connection > after)) => {
                    up.ok().and_then(|epoch| epoch.clone())
                }
                () = clock.sleep_until(by) => None,
            }
        })
        .await
    }

    /// Does `work`, and meanwhile queues who comes, and tells those whose time is over in the queue: as long as the group in
    /// front lacks acknowledgements of an older write, they lack them, too.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut first = self.queue.iter().map(|member| member.by).min().unwrap_or(Instant::NEVER);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                Some(member) = self.waiting.recv() => {
                    first = first.min(member.by);
                    self.queue.push(member);
                }
                () = self.clock.sleep_until(first) => {
                    let (now, needs) = (self.clock.now(), self.level.needs());
                    settle_some(&mut self.queue, |member| verdict(member.asked, needs, 0, member.by <= now));
                    first = self.queue.iter().map(|member| member.by).min().unwrap_or(Instant::NEVER);
                }
            }
        }
    }

    /// The time of one WAIT: in whole milliseconds, and at least one, because 0 would be for ever.
    fn wait_for(&self, by: Instant) -> Duration {
        let micros = by.since(self.clock.now()).min(self.slice).as_micros();
        Duration::from_millis(u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX).max(1))
    }
}

/// A group's write and WAIT.
struct Question {
    level: Level,
    /// The tag to write under; `None` when this group's write is done.
    tag: Option<Bytes>,
    number: u64,
    wait: Duration,
    /// Whose data it must be.
    history: Arc<str>,
}

enum Failure {
    /// Not sent, not answered, or not by one and the same connection.
    Contact(ServerError),
    /// The server is no primary, or its data is of another history.
    Changed,
    Refused {
        error: ServerError,
        /// Whether the write was refused, which alone depends on the tag.
        writing: bool,
    },
}

impl Question {
    /// Writes and waits in one go; how many have acknowledged.
    async fn ask(&self, link: &Link) -> Result<u32, Failure> {
        let text = async |name, section: &'static str| {
            link.send_static(name, vec![section.into()]).await?.into_typed::<String>()
        };
        // Polled for the first time in this order, and a first poll hands the bytes to fred. The connection's name comes
        // last: it proves that nothing before it went over another.
        let (written, waited, info, client) =
            join4(self.write(link), self.wait(link), text("INFO", "replication"), text("CLIENT", "INFO")).await;
        written.map_err(|error| Failure::of(error, true))?;
        let acknowledged = waited.map_err(|error| Failure::of(error, false))?;
        let info = info.map_err(|error| Failure::of(error, false))?;
        let client = client.map_err(|error| Failure::of(error, false))?;
        if client.split_whitespace().find_map(|word| word.strip_prefix("name=")) != Some(link.name()) {
            return Err(Failure::Contact(ServerError::unknown("the commit connection was replaced")));
        }
        if info_field(&info, "role") != "master" || info_field(&info, "master_replid") != &*self.history {
            return Err(Failure::Changed);
        }
        Ok(acknowledged)
    }

    async fn write(&self, link: &Link) -> Result<(), ServerError> {
        let Some(tag) = &self.tag else { return Ok(()) };
        let key = Bytes::from([b"redgrid_commit:{", &**tag, b"}"].concat());
        let number = self.number.to_string();
        let args = vec![key.into(), number.into(), Value::from_static_str("PX"), Value::from(KEY_LIVES_MS)];
        link.send_static("SET", args).await.map(drop)
    }

    async fn wait(&self, link: &Link) -> Result<u32, ServerError> {
        let millis = Value::from(i64::try_from(self.wait.as_millis()).unwrap_or(i64::MAX));
        let acknowledged = match self.level {
            Level::Replicas(at_least) => {
                let args = vec![Value::from(i64::from(at_least)), millis];
                link.send_static("WAIT", args).await?.into_typed::<u64>()?
            }
            Level::Disk => {
                let args = vec![Value::from(1), Value::from(0), millis];
                link.send_static("WAITAOF", args).await?.into_typed::<(u64, u64)>()?.0
            }
        };
        Ok(u32::try_from(acknowledged).unwrap_or(u32::MAX))
    }
}

impl Failure {
    fn of(error: ServerError, writing: bool) -> Self {
        match error {
            ServerError::NotSent { .. } | ServerError::Unknown { .. } => Failure::Contact(error),
            ServerError::Refused { .. } | ServerError::Decode { .. } => Failure::Refused { error, writing },
        }
    }
}

fn is_elsewhere(error: &ServerError) -> bool {
    matches!(error.code(), Some(Code::Moved | Code::Ask | Code::TryAgain))
}

/// Whether anything can be proven of what was answered in the epoch `since`.
fn provable(commands: &Link, since: &Epoch) -> Result<(), CommitError> {
    if since.run_id.is_empty() || commands.history().is_empty() {
        let missing =
            "the user may not read its `run_id` and `master_replid` (INFO), without which nothing can be proven";
        return Err(CommitError::Unsupported { missing: missing.into() });
    }
    match commands.epoch().borrow().as_ref() == Some(since) {
        true => Ok(()),
        false => Err(CommitError::unproven("the connection that answered is no longer the present one")),
    }
}

/// What so many acknowledgements mean for one member; `None` while it can still wait.
fn verdict(asked: Durability, needs: u32, acknowledged: u32, is_over: bool) -> Option<Result<(), CommitError>> {
    if acknowledged >= needs {
        return Some(Ok(()));
    }
    is_over.then_some(Err(CommitError::Shortfall { asked, acknowledged }))
}

/// Answers those of whom `judge` knows what is true; who has left needs no answer.
fn settle_some(members: &mut Vec<Member>, mut judge: impl FnMut(&Member) -> Option<Result<(), CommitError>>) {
    for member in std::mem::take(members) {
        if member.answer.is_closed() {
            continue;
        }
        match judge(&member) {
            Some(known) => drop(member.answer.send(known)),
            None => members.push(member),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_millis(40);

    #[test]
    fn only_enough_acknowledgements_are_success_and_too_few_are_told_in_numbers() {
        let asked = Durability::Replicas { at_least: 2, timeout: WITHIN };
        assert_eq!(verdict(asked, 2, 2, true), Some(Ok(())));
        assert_eq!(verdict(asked, 2, 3, false), Some(Ok(())));
        assert_eq!(verdict(asked, 2, 1, false), None);
        let short = verdict(asked, 2, 1, true).unwrap().unwrap_err();
        assert_eq!(short.to_string(), "1 of 2 replicas acknowledged within 40ms");
        let disk = verdict(Durability::Disk { timeout: WITHIN }, 1, 0, true).unwrap().unwrap_err();
        assert_eq!(disk.to_string(), "it was not synced to the server's disk within 40ms");
    }

    #[test]
    fn a_level_is_shared_by_all_who_wait_for_the_same() {
        let replicas = |at_least, timeout| Level::of(Durability::Replicas { at_least, timeout });
        assert_eq!(Level::of(Durability::Primary), None);
        assert_eq!(replicas(0, WITHIN), None);
        assert_eq!(replicas(2, WITHIN), Some((Level::Replicas(2), WITHIN)));
        assert_eq!(replicas(2, 2 * WITHIN).map(|(level, _)| level), Some(Level::Replicas(2)));
        assert_eq!(Level::of(Durability::Disk { timeout: WITHIN }), Some((Level::Disk, WITHIN)));
    }

    #[test]
    fn a_server_without_the_means_is_told_from_one_that_refuses() {
        let refused = |message: &str| Level::Disk.refused(ServerError::refused(message));
        let old = refused("ERR unknown command 'WAITAOF', with args beginning with: '1' '0' '5' ");
        assert!(matches!(&old, CommitError::Unsupported { missing } if missing.contains("7.2")), "{old}");
        let off = refused("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
        assert!(matches!(&off, CommitError::Unsupported { missing } if missing.contains("appendonly")), "{off}");
        let denied = refused("NOPERM this user has no permissions to run the 'waitaof' command");
        assert_eq!(
            denied,
            CommitError::Asking(ServerError::refused(
                "NOPERM this user has no permissions to run the 'waitaof' command"
            ))
        );
    }
}
