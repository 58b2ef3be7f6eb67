//! The one reader of the servers, shared by all viewers.
//!
//! It works while somebody looks: while a page with updates is open, and for 30 s after a page was
//! requested or closed. Then it sends nothing.
//!
//! | what | commands | how often |
//! |---|---|---|
//! | health | `PING` at each node | 2 s |
//! | servers | `INFO` at each primary | 10 s |
//! | clients | `INFO stats` and `PUBSUB CHANNELS` at each primary | 2 s, or 10 s with more than 1,000 clients |
//! | reports | a question to each client | 5 s, at most 50 a second |
//! | search for locks | `SCAN` with a bounded script | at most 2 % of a node's time |
//! | locks on the screen | bounded reads | 1 s, at most 12 locks |
//! | search for queues, synchronizers, limiters | as for locks | at most 2 % of a node's time |
//! | those on the screen | bounded reads | 1 s, at most 12 objects |
//! | checks | those of `redgrid doctor` | on request, at most one a minute |

mod clients;
mod listed;
mod locks;
mod nodes;
mod viewers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_inspect::{Inspector, Requirements};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

pub(crate) use self::viewers::{Interest, TooManyViewers};
use self::viewers::{Need, Viewers};
use crate::board::{Found, LockRow, Sources};
use crate::snapshot::Snapshot;

/// How often a source that nobody needs looks whether somebody does; a new viewer also wakes it.
const IDLE: Duration = Duration::from_millis(500);

/// The collector of a console.
pub(crate) struct Collector {
    client: Client,
    pub(crate) inspector: Inspector,
    requirements: Option<Requirements>,
    viewers: Mutex<Viewers>,
    snapshot: watch::Sender<Snapshot>,
    /// The locks that the search found.
    found: Mutex<BTreeMap<String, Found>>,
    /// Notified when a viewer comes.
    came: Notify,
    /// Notified when a holder was found that is newer than the list of clients.
    is_list_old: Notify,
    is_doctor_wanted: AtomicBool,
}

impl Collector {
    /// Creates it. It sends nothing until somebody looks.
    pub(crate) fn new(client: &Client, requirements: Option<Requirements>) -> Arc<Collector> {
        Arc::new(Collector {
            client: client.clone(),
            inspector: Inspector::new(client),
            requirements,
            viewers: Mutex::default(),
            snapshot: watch::Sender::default(),
            found: Mutex::default(),
            came: Notify::new(),
            is_list_old: Notify::new(),
            is_doctor_wanted: AtomicBool::new(false),
        })
    }

    /// Returns what is known now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Returns a receiver that is notified of changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Snapshot> {
        self.snapshot.subscribe()
    }

    /// Registers a viewer until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// [`TooManyViewers`] if 256 pages are open.
    pub(crate) fn enter(self: &Arc<Self>, interest: Interest) -> Result<Viewer, TooManyViewers> {
        let id = self.viewers().enter(interest)?;
        self.wake();
        Ok(Viewer { collector: Arc::clone(self), id })
    }

    /// Collects for a page without updates, for 30 s.
    pub(crate) fn touch(self: &Arc<Self>, interest: Interest) {
        self.viewers().linger(interest, Instant::now());
        self.wake();
    }

    /// Requests the checks of the settings.
    pub(crate) fn request_doctor(&self) {
        self.is_doctor_wanted.store(true, Ordering::Relaxed);
        self.came.notify_waiters();
    }

    /// Waits until `is_known` holds for what is known, for at most `limit`; returns what is known
    /// then.
    pub(crate) async fn when(&self, limit: Duration, is_known: impl FnMut(&Snapshot) -> bool) -> Snapshot {
        let mut changes = self.changes();
        // The sender lives as long as this value, so only the time limit can fail.
        let _ = tokio::time::timeout(limit, changes.wait_for(is_known)).await;
        self.snapshot()
    }

    fn viewers(&self) -> std::sync::MutexGuard<'_, Viewers> {
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the work unless it is under way.
    fn wake(self: &Arc<Self>) {
        if self.viewers().start() {
            let collector = Arc::clone(self);
            tokio::spawn(async move {
                // Resets the flag even if the work panics, so that the next viewer starts it again.
                let stopped = Stopped(&collector);
                loop {
                    collector.work().await;
                    if collector.viewers().stop(Instant::now()) {
                        std::mem::forget(stopped);
                        return;
                    }
                }
            });
        }
        self.came.notify_waiters();
    }

    /// Reads all sources until nobody looks any more.
    async fn work(&self) {
        tokio::join!(
            self.read_health(),
            self.read_servers(),
            self.read_clients(),
            self.ask_clients(),
            self.search_locks(),
            self.read_shown_locks(),
            self.search_listed(),
            self.read_listed(),
            self.run_doctor(),
        );
    }

    /// Waits until a source is needed. Returns `false` when nobody looks at any page any more.
    async fn needed(&self, need: Need) -> bool {
        loop {
            {
                let mut viewers = self.viewers();
                let now = Instant::now();
                if viewers.need(need, now) {
                    return true;
                }
                if !viewers.is_any(now) {
                    return false;
                }
            }
            let _ = tokio::time::timeout(IDLE, self.came.notified()).await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot.send_modify(change);
    }

    /// Makes the list of locks from what the sources have found.
    fn update_board(&self) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(|snapshot| {
            let rows = Sources {
                found: &found,
                searched_since: snapshot.sweep.completed.map(|(began, _)| began).filter(|_| !snapshot.sweep.is_cut),
                living: &snapshot.living,
                processes: &snapshot.processes,
            }
            .rows();
            if snapshot.living.is_all() && rows.iter().any(LockRow::has_unknown) {
                self.is_list_old.notify_one();
            }
            if *snapshot.locks != rows {
                snapshot.locks = Arc::new(rows);
            }
        });
    }
}

/// A viewer with an open page.
pub(crate) struct Viewer {
    collector: Arc<Collector>,
    id: u64,
}

impl Viewer {
    /// Says which objects are on the screen.
    pub(crate) fn shows(&self, names: Vec<String>) {
        self.collector.viewers().shows(self.id, names);
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.collector.viewers().leave(self.id, Instant::now());
    }
}

/// Marks the collector as stopped when its task panics.
struct Stopped<'a>(&'a Collector);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.viewers().stopped();
    }
}
