//! State shared by all connections of a proxy: the faults, and the counters.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use crate::{
    proxy::action::{Action, Direction, Fault},
    resp::Command,
};

pub(crate) type Hook = Arc<dyn Fn(&[Bytes]) -> Action + Send + Sync>;

/// The faults of all connections.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    to_server: Fault,
    to_client: Fault,
    pub(crate) drop_publishes: bool,
}

impl Faults {
    pub(crate) fn towards(&self, direction: Direction) -> Fault {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }

    pub(crate) fn towards_mut(&mut self, direction: Direction) -> &mut Fault {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

/// An action for the next requests that contain some bytes.
struct Rule {
    needle: Bytes,
    left: usize,
    action: Action,
}

/// The state shared by a proxy and its connections.
pub(crate) struct Shared {
    pub(crate) faults: watch::Sender<Faults>,
    /// Incremented to cut all connections.
    pub(crate) cuts: watch::Sender<u64>,
    /// Incremented to release everything held.
    pub(crate) releases: watch::Sender<u64>,
    pub(crate) counts: Counts,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    rules: Vec<Rule>,
    hook: Option<Hook>,
    /// For each held request, a receiver that resolves when the server has answered it.
    held: Vec<oneshot::Receiver<()>>,
}

/// Cumulative counters, except `open` and `held`, which are current numbers.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) swallowed: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) publishes_dropped: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            faults: watch::Sender::default(),
            cuts: watch::Sender::default(),
            releases: watch::Sender::default(),
            counts: Counts::default(),
            requests: Mutex::default(),
        })
    }

    /// Returns the action of the oldest matching rule; if no rule matches, that of the hook.
    pub(crate) fn decide(&self, command: &Command) -> Action {
        let mut requests = self.requests();
        if let Some(at) = requests.rules.iter().position(|rule| command.contains(&rule.needle)) {
            let rule = &mut requests.rules[at];
            rule.left -= 1;
            let action = rule.action;
            if rule.left == 0 {
                requests.rules.remove(at);
            }
            return action;
        }
        let hook = requests.hook.clone();
        // The hook may use the proxy, so no lock is held while it runs.
        drop(requests);
        hook.map_or(Action::Forward, |hook| hook(&command.parts))
    }

    pub(crate) fn add_rule(&self, count: usize, needle: Bytes, action: Action) {
        if count > 0 {
            self.requests().rules.push(Rule { needle, left: count, action });
        }
    }

    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        self.requests().hook = hook;
    }

    /// Removes the rules and the hook.
    pub(crate) fn clear(&self) {
        let mut requests = self.requests();
        requests.rules.clear();
        requests.hook = None;
    }

    /// Records a held request. It is released when `releases` exceeds the returned number.
    pub(crate) fn hold(&self) -> (u64, oneshot::Sender<()>) {
        let (answered, receiver) = oneshot::channel();
        let mut requests = self.requests();
        requests.held.push(receiver);
        self.counts.held.fetch_add(1, Ordering::SeqCst);
        (*self.releases.borrow(), answered)
    }

    /// Releases everything held so far, and returns receivers that resolve when the server has
    /// answered.
    pub(crate) fn release(&self) -> Vec<oneshot::Receiver<()>> {
        // The lock is held until the end: a request that is being held meanwhile belongs either to
        // this release, with its receiver, or to the next one.
        let mut requests = self.requests();
        let held = std::mem::take(&mut requests.held);
        self.counts.held.fetch_sub(held.len() as u64, Ordering::SeqCst);
        self.releases.send_modify(|releases| *releases += 1);
        held
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("faults", &*self.faults.borrow()).finish_non_exhaustive()
    }
}
