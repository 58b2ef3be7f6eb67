//! One durability level: its waiters, which are served in groups, and the connection that they
//! share.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::wait_command::{Failure, WaitCommand};
use super::{CommitError, Level, check_provable};
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::connection::ConnectionId;
use crate::connection::link::Connection;
use crate::connection::pool::ConnectionPool;
use crate::error::{Code, ServerError};

pub(super) struct Member {
    pub(super) since: ConnectionId,
    pub(super) requested: Durability,
    pub(super) tag: Bytes,
    pub(super) by: Instant,
    pub(super) answer: oneshot::Sender<Result<(), CommitError>>,
}

/// One durability level with its connection and its waiters.
pub(super) struct GroupCommit {
    pub(super) level: Level,
    pub(super) link: Arc<Connection>,
    /// The connections on which the writes were answered. This level confirms these writes.
    pub(super) commands: Arc<ConnectionPool>,
    pub(super) clock: Clock,
    /// The longest duration of one WAIT; a longer wait consists of several WAITs. So a dead
    /// connection is noticed within a bounded time.
    pub(super) slice: Duration,
    pub(super) waiting: mpsc::UnboundedReceiver<Member>,
    pub(super) queue: Vec<Member>,
    pub(super) groups: u64,
}

impl GroupCommit {
    pub(super) async fn run(mut self) {
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

    /// Processes one group: sends one write, then repeats WAIT until each member has its answer.
    async fn settle(&mut self, mut group: Vec<Member>) {
        self.groups += 1;
        let mut written = None;
        // The last connection that was lost while this group was processed, and the error of the
        // loss.
        let (mut lost, mut trouble) = (0, None);
        loop {
            settle_some(&mut group, |member| check_provable(&self.commands, &member.since).err().map(Err));
            let Some(by) = group.iter().map(|member| member.by).min() else { return };
            let Some(epoch) = self.connection(lost, by).await else {
                let why = trouble.clone().unwrap_or_else(|| self.link.down());
                self.give_up(&mut group, &why);
                continue;
            };
            if group.iter().any(|member| member.since.run_id != epoch.run_id) {
                let elsewhere = CommitError::unproven("the commit connection now leads to another server process");
                settle_some(&mut group, |member| (member.since.run_id != epoch.run_id).then(|| Err(elsewhere.clone())));
                // Either the commit connection is outdated, or the connection on which the member's
                // write was answered (`since`). In both cases the commit connection is replaced.
                // This disturbs no other requests, because only commits use the commit connection.
                self.link.renew();
                continue;
            }
            let wait_command = WaitCommand {
                level: self.level,
                tag: group.first().map(|member| member.tag.clone()).filter(|_| written != Some(epoch.connection)),
                number: self.groups,
                wait: self.wait_for(by),
                history: self.commands.history(),
            };
            // The time limit is the timeout of the WAIT plus one slice for the transfer. Without a
            // reply within this limit, the connection is treated as dead.
            let link = Arc::clone(&self.link);
            let response = tokio::time::timeout(wait_command.wait + self.slice, wait_command.send(&link));
            let Ok(answer) = self.meanwhile(response).await else {
                let no_reply = ServerError::unknown("the server did not answer in time");
                settle_some(&mut group, |_| Some(Err(no_reply.clone().into())));
                return self.link.renew();
            };
            let broken = match answer {
                Ok(acknowledged) if self.link.epoch().borrow().as_ref() == Some(&epoch) => {
                    written = Some(epoch.connection);
                    let now = self.clock.now();
                    settle_some(&mut group, |member| match check_provable(&self.commands, &member.since) {
                        Ok(()) => verdict(member.requested, self.level.needs(), acknowledged, member.by <= now),
                        Err(error) => Some(Err(error)),
                    });
                    None
                }
                Ok(_) => Some(ServerError::unknown("the commit connection was lost")),
                Err(Failure::Contact(error)) => Some(error),
                Err(Failure::Changed) => {
                    let changed = "the server's role or its replication history has changed";
                    settle_some(&mut group, |_| Some(Err(CommitError::unproven(changed))));
                    if self.commands.history() == wait_command.history {
                        self.commands.repeat_handshake(changed);
                    }
                    None
                }
                Err(Failure::Refused { error, writing }) => {
                    // If the server refuses the write because it does not serve the slot of the
                    // key, only the members with the key's tag fail. Otherwise all members fail.
                    let all = !writing || !is_elsewhere(&error);
                    settle_some(&mut group, |member| {
                        let concerned = all || wait_command.tag.as_ref() == Some(&member.tag);
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

    /// Answers the members whose deadline has passed. They get the error `why`, which prevented a
    /// WAIT.
    fn give_up(&self, group: &mut Vec<Member>, why: &ServerError) {
        let now = self.clock.now();
        settle_some(group, |member| (member.by <= now).then(|| Err(why.clone().into())));
    }

    /// Waits for a connection with a number above `after`. Returns `None` if no such connection is
    /// up by the instant `by`.
    async fn connection(&mut self, after: u64, by: Instant) -> Option<ConnectionId> {
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

    /// Runs `work`. Until `work` completes, this method also queues new waiters, and answers queued
    /// waiters at their deadline.
    ///
    /// An answer at the deadline reports zero acknowledgements: replicas acknowledge the write of a
    /// whole group, and a queued waiter belongs to the next group. That group sends its write only
    /// after the current group is done. So no replica has acknowledged that write yet.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut first = self.queue.iter().map(|member| member.by).min().unwrap_or(Instant::MAX);
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
                    settle_some(&mut self.queue, |member| verdict(member.requested, needs, 0, member.by <= now));
                    first = self.queue.iter().map(|member| member.by).min().unwrap_or(Instant::MAX);
                }
            }
        }
    }

    /// Returns the timeout of one WAIT in whole milliseconds, at least one: 0 would block forever.
    fn wait_for(&self, by: Instant) -> Duration {
        let micros = by.since(self.clock.now()).min(self.slice).as_micros();
        Duration::from_millis(u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX).max(1))
    }
}

fn is_elsewhere(error: &ServerError) -> bool {
    matches!(error.code(), Some(Code::Moved | Code::Ask | Code::TryAgain))
}

/// Returns the result of one member for a number of acknowledgements; `None` while the member can
/// still wait.
fn verdict(requested: Durability, needs: u32, acknowledged: u32, is_over: bool) -> Option<Result<(), CommitError>> {
    if acknowledged >= needs {
        return Some(Ok(()));
    }
    is_over.then_some(Err(CommitError::Shortfall { asked: requested, acknowledged }))
}

/// Answers and removes the members for which `judge` returns a result. Also removes members with a
/// dropped receiver.
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

    const TIMEOUT: Duration = Duration::from_millis(40);

    #[test]
    fn too_few_acknowledgements_are_an_error_with_their_number() {
        let requested = Durability::Replicas { at_least: 2, timeout: TIMEOUT };
        assert_eq!(verdict(requested, 2, 2, true), Some(Ok(())));
        assert_eq!(verdict(requested, 2, 3, false), Some(Ok(())));
        assert_eq!(verdict(requested, 2, 1, false), None);
        let short = verdict(requested, 2, 1, true).unwrap().unwrap_err();
        assert_eq!(short.to_string(), "1 of 2 replicas acknowledged within 40ms");
        let disk = verdict(Durability::Disk { timeout: TIMEOUT }, 1, 0, true).unwrap().unwrap_err();
        assert_eq!(disk.to_string(), "it was not synced to the server's disk within 40ms");
    }
}
