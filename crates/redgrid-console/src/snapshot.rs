//! The data that the collector has at one moment.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use redgrid_core::Health;
use redgrid_core::report::ClientReport;
use redgrid_inspect::{DoctorReport, LockView};

use crate::board::LockRow;
use crate::contention::Contention;
use crate::holder_state::Seen;
use crate::lints::Findings;
use crate::listed::{Group, Listed};
use crate::memo::Memo;
use crate::process_events::ProcessEvents;
use crate::server_info::ServerInfo;

/// The state of one source: its last answer, and whether it fails now. Times are in milliseconds
/// since 1970.
#[derive(Debug)]
pub(crate) struct Reading<T> {
    answer: Option<(Arc<T>, u64)>,
    /// Why it fails, and since when.
    pub(crate) trouble: Option<(String, u64)>,
}

impl<T> Reading<T> {
    /// Records an answer.
    pub(crate) fn answered(&mut self, answer: T, now: u64) {
        *self = Reading { answer: Some((Arc::new(answer), now)), trouble: None };
    }

    /// Records a failure. The last answer stays.
    pub(crate) fn failed(&mut self, why: String, now: u64) {
        let since = self.trouble.take().map_or(now, |(_, since)| since);
        self.trouble = Some((why, since));
    }

    /// Records an answer or a failure.
    pub(crate) fn ended(&mut self, result: Result<T, impl ToString>, now: u64) {
        match result {
            Ok(answer) => self.answered(answer, now),
            Err(error) => self.failed(error.to_string(), now),
        }
    }

    /// Returns the last answer.
    pub(crate) fn get(&self) -> Option<&Arc<T>> {
        self.answer.as_ref().map(|(answer, _)| answer)
    }

    /// Returns when the last answer came.
    pub(crate) fn read_at(&self) -> Option<u64> {
        self.answer.as_ref().map(|(_, at)| *at)
    }

    /// Returns whether the source has answered or failed.
    pub(crate) fn is_known(&self) -> bool {
        self.answer.is_some() || self.trouble.is_some()
    }
}

impl Reading<Living> {
    /// Returns whether there are two lists that are far enough apart to show that a client is gone.
    pub(crate) fn has_second_look(&self) -> bool {
        let (Some(living), Some(read_at)) = (self.get(), self.read_at()) else { return false };
        living.first_look(read_at).is_some()
    }

    /// Returns the state of a client in the last list.
    pub(crate) fn presence(&self, client: &str) -> Presence {
        let (Some(living), Some(read_at)) = (self.get(), self.read_at()) else { return Presence::Unknown };
        match living.absent_since(client, read_at) {
            _ if living.has(client) => Presence::Connected,
            Some(since) => Presence::Absent { since },
            None => Presence::Unknown,
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading { answer: None, trouble: None }
    }
}

impl<T> Clone for Reading<T> {
    fn clone(&self) -> Self {
        Reading { answer: self.answer.clone(), trouble: self.trouble.clone() }
    }
}

/// Everything that pages show. It is cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    /// The pings of all nodes.
    pub(crate) health: Reading<Health>,
    /// Since when a primary does not answer.
    pub(crate) unreachable_since: Option<u64>,
    /// `INFO` of the primaries.
    pub(crate) servers: Reading<Vec<ServerInfo>>,
    /// The number of keys of all primaries; `None` if it is not known.
    pub(crate) keys: Option<u64>,
    /// The replicas in the last replies to `INFO`, by their addresses, each with the bytes that it
    /// has not confirmed. The replicas of a primary that does not answer are not known.
    pub(crate) replica_lags: BTreeMap<String, u64>,
    /// The clients with a channel.
    pub(crate) living: Reading<Living>,
    /// The last round of questions to the clients.
    pub(crate) questions: Reading<()>,
    /// Each living client, and those that have left within the last minute, by their UUIDs.
    pub(crate) processes: Arc<BTreeMap<String, Process>>,
    /// The search for locks.
    pub(crate) sweep: Sweep,
    /// The locks that are held or awaited, by their names.
    pub(crate) locks: Arc<Vec<LockRow>>,
    /// Whether the reports name more locks than are listed.
    pub(crate) are_locks_cut: bool,
    /// The locks of open lock pages, by their names.
    pub(crate) watched: Arc<BTreeMap<String, Reading<LockView>>>,
    /// The readings of the holders of these locks, by the lock.
    pub(crate) watched_holders: Arc<BTreeMap<String, BTreeMap<HolderKey, Seen>>>,
    /// Queues, synchronizers, limiters, streams and caches.
    pub(crate) listed: [Listed; 4],
    /// The findings, once a page has needed them. All pages of a state share them.
    pub(crate) findings: Arc<OnceLock<Findings>>,
    /// The contention that the processes report.
    pub(crate) contention: Arc<Memo<Contention>>,
    /// The events that the processes report.
    pub(crate) events: Arc<Memo<ProcessEvents>>,
    /// The last checks of the settings, for the page of the doctor.
    pub(crate) doctor: Reading<DoctorReport>,
    /// The last checks for metrics, of what a reader may read.
    pub(crate) checks: Reading<DoctorReport>,
    /// Whether checks for the page are running.
    pub(crate) is_doctor_running: bool,
}

/// A holder of a lock: its client, and its number.
pub(crate) type HolderKey = (String, Option<u64>);

impl Snapshot {
    /// Returns the processes of connected clients.
    pub(crate) fn connected(&self) -> impl Iterator<Item = (&String, &Process)> {
        self.processes.iter().filter(|(_, process)| process.left_at.is_none())
    }

    /// Returns the data of a group of objects.
    pub(crate) fn list(&self, group: Group) -> &Listed {
        &self.listed[group as usize]
    }
}

/// The UUIDs of clients, with the ids for questions.
type Clients = BTreeMap<String, String>;

/// The living clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Living {
    /// Their UUIDs, with the ids for questions. The latter begin with the namespace of the client,
    /// if it is another one than the console's.
    pub(crate) clients: Arc<Clients>,
    /// Whether these are all.
    pub(crate) is_complete: bool,
    /// When a primary was replaced or restarted for the last time, as far as it is known.
    pub(crate) changed_at: Option<u64>,
    /// Earlier complete lists, the oldest first: one that is at least [`LOOKS_APART_MS`] old, and
    /// all after it.
    earlier: Vec<(Arc<Clients>, u64)>,
}

/// The time for which a client must be absent: 1.5 s, so that a subscription has time to reconnect,
/// and a client that was killed is shown as gone within 3 s.
const LOOKS_APART_MS: u64 = 1_500;

/// Length of a UUID.
const UUID_LEN: usize = 36;

impl Living {
    /// Creates it from the ids for questions.
    pub(crate) fn of(ids: Vec<String>, is_complete: bool) -> Living {
        let uuid = |id: String| {
            let start = id.len().checked_sub(UUID_LEN).filter(|start| id.is_char_boundary(*start))?;
            Some((id[start..].to_owned(), id))
        };
        let clients = Arc::new(ids.into_iter().filter_map(uuid).collect());
        Living { clients, is_complete, ..Living::default() }
    }

    /// Remembers the lists before this one, which was read at this time.
    pub(crate) fn after(mut self, last: &Reading<Living>, at: u64) -> Living {
        if let Some((list, read_at)) = &last.answer
            && list.is_complete
        {
            self.earlier.clone_from(&list.earlier);
            self.earlier.push((Arc::clone(&list.clients), *read_at));
            let old = self.earlier.iter().rposition(|(_, read_at)| read_at.saturating_add(LOOKS_APART_MS) <= at);
            self.earlier.drain(..old.unwrap_or(0));
        }
        self.changed_at = self.changed_at.or(last.get().and_then(|list| list.changed_at));
        self
    }

    /// Returns the time from which a client is known to be absent; `None` unless it is absent from
    /// this list, from one that is at least [`LOOKS_APART_MS`] older, and from each list between.
    pub(crate) fn absent_since(&self, client: &str, read_at: u64) -> Option<u64> {
        let first = self.first_look(read_at)?;
        let is_absent = !self.has(client) && self.earlier.iter().all(|(clients, _)| !clients.contains_key(client));
        is_absent.then_some(first)
    }

    /// Returns the time of the oldest list, if it is old enough to show that a client is gone.
    fn first_look(&self, read_at: u64) -> Option<u64> {
        self.earlier.first().map(|(_, at)| *at).filter(|at| at.saturating_add(LOOKS_APART_MS) <= read_at)
    }

    /// Returns whether the client with this UUID lives.
    pub(crate) fn has(&self, client: &str) -> bool {
        self.clients.contains_key(client)
    }
}

/// The state of one client in the lists of clients. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is connected.
    Connected,
    /// It has been absent from each list for at least [`LOOKS_APART_MS`].
    Absent {
        /// The time of the first of these lists.
        since: u64,
    },
    /// It is absent for a moment only, or there is no complete list.
    Unknown,
}

/// The state of a living client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Process {
    /// The namespace of the client below that of the console, with a colon; empty if it is the
    /// same.
    pub(crate) namespace: String,
    /// Its last report, and when it came.
    pub(crate) report: Option<(Arc<ClientReport>, u64)>,
    /// Since when it does not answer; `None` if it answered the last question, or was not asked.
    pub(crate) silent_since: Option<u64>,
    /// Whether it was asked at all.
    pub(crate) is_asked: bool,
    /// Whether it has ever answered.
    pub(crate) has_answered: bool,
    /// Since when its client is not connected; its last report is kept for a minute.
    pub(crate) left_at: Option<u64>,
}

impl Process {
    /// Returns its last report.
    pub(crate) fn report(&self) -> Option<&ClientReport> {
        self.report.as_ref().map(|(report, _)| &**report)
    }

    /// Returns the name of an object as its reports contain it, without its namespace. `None` if
    /// the object is of another namespace.
    pub(crate) fn name_in_report<'a>(&self, name: &'a [u8]) -> Option<&'a [u8]> {
        name.strip_prefix(self.namespace.as_bytes())
    }
}

/// The progress of a search.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sweep {
    /// When the last complete search began and ended.
    pub(crate) completed: Option<(u64, u64)>,
    /// Objects found by the search under way.
    pub(crate) found: usize,
    /// Whether the deployment has too many keys to be searched without a request, or their number
    /// is not known.
    pub(crate) is_too_large: bool,
    /// Whether more objects exist than are kept.
    pub(crate) is_cut: bool,
    /// Why the last search failed, and since when searches fail.
    pub(crate) trouble: Option<(String, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_last_answer_and_its_first_time() {
        let mut reading = Reading::default();
        assert!(!reading.is_known());
        reading.answered(5, 10);
        reading.failed("away".into(), 20);
        reading.failed("still away".into(), 30);
        assert_eq!((reading.get().map(|value| **value), reading.read_at()), (Some(5), Some(10)));
        assert_eq!(reading.trouble, Some(("still away".into(), 20)));
        reading.answered(6, 40);
        assert_eq!(reading.trouble, None);
    }
}
