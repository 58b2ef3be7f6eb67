//! The one reader of the servers, shared by all viewers.
//!
//! It works while a page is open: while a page with updates is open, and for 30 s after a page was
//! requested or closed, and 90 s after a scrape of metrics. Then it sends nothing.
//!
//! | what | commands | how often |
//! |---|---|---|
//! | health | `PING` at each node | 2 s |
//! | servers | `INFO` at each primary | 10 s |
//! | clients | `INFO stats`, `PUBSUB CHANNELS` at each primary | 1 s per 1,000 channels, up to 10 s |
//! | reports | a question to each client | 5 s, at most 50 a second |
//! | search for locks | `SCAN` with a bounded script | at most 2 % of a node's time |
//! | locks on the screen, those of clients that left | bounded reads | 1 s, 50 commands or 2 locks |
//! | search for objects of other lists | as for locks | at most 2 % of a node's time |
//! | objects of those lists on the screen | bounded reads | 1 s, at most 12 objects |
//! | checks | those of `redgrid doctor` that only read | on request |
//! | checks for metrics | the same, without those that a reader may not do | 1 h |
//!
//! Data that no page needs is forgotten, so that no page shows old data as current.

mod clients;
mod cost;
mod left;
mod listed;
mod locks;
mod nodes;
mod turns;
mod viewers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_inspect::{Inspector, Requirements};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::cost::Cost;
pub(crate) use self::viewers::{Interest, TooManyViewers};
use self::viewers::{Need, Viewers};
use crate::board::{Found, Sources};
use crate::listed::Group;
use crate::pages::Page;
use crate::snapshot::Snapshot;

/// How often a source that no viewer needs checks again; a new viewer also wakes it.
const IDLE: Duration = Duration::from_millis(500);

/// How often the collector checks whether a page is open at all.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest time between two lists of locks because of reports: 250 ms.
const BOARD_INTERVAL: Duration = Duration::from_millis(250);

/// The time until the work starts again after a panic: 1 s.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// The collector of a console.
pub(crate) struct Collector {
    client: Client,
    pub(crate) inspector: Inspector,
    requirements: Option<Requirements>,
    /// How long the requests took, but not the questions to clients, which wait for the clients.
    pub(crate) cost: Cost,
    viewers: Mutex<Viewers>,
    snapshot: watch::Sender<Snapshot>,
    /// The locks that the search found.
    found: Mutex<BTreeMap<String, Found>>,
    /// Notified when a viewer comes.
    came: Notify,
    /// Notified when the page of a lock is opened that was not read yet.
    is_lock_new: Notify,
    /// Notified when the page of another object is opened that was not read yet.
    is_object_new: Notify,
    /// Notified when a report has come that is not in the list of locks yet.
    has_report: Notify,
    /// The clients that have ever answered. They are remembered while no page is open.
    reporters: Mutex<BTreeSet<String>>,
    is_doctor_wanted: AtomicBool,
}

impl Collector {
    /// Creates it. It sends nothing until a page is opened.
    pub(crate) fn new(client: &Client, requirements: Option<Requirements>) -> Arc<Collector> {
        Arc::new(Collector {
            client: client.clone(),
            inspector: Inspector::new(client),
            requirements,
            cost: Cost::default(),
            viewers: Mutex::default(),
            snapshot: watch::Sender::default(),
            found: Mutex::default(),
            came: Notify::new(),
            is_lock_new: Notify::new(),
            is_object_new: Notify::new(),
            has_report: Notify::new(),
            reporters: Mutex::default(),
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
        let unread = self.unread(&interest);
        let id = self.viewers().enter(interest, Instant::now())?;
        self.wake(unread);
        Ok(Viewer { collector: Arc::clone(self), id })
    }

    /// Collects for a page without updates, for 30 s.
    pub(crate) fn touch(self: &Arc<Self>, interest: Interest) {
        let unread = self.unread(&interest);
        self.viewers().linger(interest, Instant::now());
        self.wake(unread);
    }

    /// Collects for a scrape of metrics, for 90 s.
    pub(crate) fn scraped(self: &Arc<Self>) {
        self.viewers().scraped(Instant::now());
        self.wake(None);
    }

    /// Returns what to notify if a page needs an object that was not read yet.
    fn unread(&self, interest: &Interest) -> Option<&Notify> {
        let name = interest.name.as_ref()?;
        let snapshot = self.snapshot.borrow();
        if interest.page == Page::Lock {
            return (!snapshot.watched.contains_key(name)).then_some(&self.is_lock_new);
        }
        let group = Group::of(interest.page)?;
        (!snapshot.list(group).read.contains_key(name)).then_some(&self.is_object_new)
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

    /// Starts the work unless it is under way, and reads an object at once that was not read yet.
    fn wake(self: &Arc<Self>, unread: Option<&Notify>) {
        self.start();
        if let Some(unread) = unread {
            unread.notify_one();
        }
        self.came.notify_waiters();
    }

    /// Starts the work, unless it is running.
    fn start(self: &Arc<Self>) {
        if self.viewers().start() {
            let collector = Arc::clone(self);
            tokio::spawn(async move { collector.run().await });
        }
    }

    /// Works until the last page is closed.
    async fn run(self: &Arc<Self>) {
        loop {
            let collector = Arc::clone(self);
            // A task of its own, so that open pages do not stand still after a panic.
            let work = tokio::spawn(async move { collector.work().await });
            let has_panicked = work.await.is_err_and(|error| error.is_panic());
            // The next page shows only data that is read after it was opened.
            self.forget();
            if self.viewers().stop(Instant::now()) {
                return;
            }
            if has_panicked {
                tokio::time::sleep(PANIC_PAUSE).await;
            }
        }
    }

    /// Reads all sources until the last page is closed.
    async fn work(&self) {
        let sources = async {
            tokio::join!(
                self.read_health(),
                self.read_servers(),
                self.read_clients(),
                self.ask_clients(),
                self.search_locks(),
                self.read_shown_locks(),
                self.list_reported_locks(),
                self.search_listed(),
                self.read_listed(),
                self.run_doctor(),
            )
        };
        // The sources never end by themselves. Otherwise one that had ended would be missing if a
        // page was opened before the others had.
        tokio::select! {
            _ = sources => {}
            () = self.nobody_looks() => {}
        }
    }

    /// Waits until no page is open.
    async fn nobody_looks(&self) {
        while self.viewers().is_any(Instant::now()) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Waits until a source is needed. Meanwhile its data is forgotten.
    async fn needed(&self, need: Need, forget: impl FnOnce(&mut Snapshot)) {
        if self.viewers().need(need, Instant::now()) {
            return;
        }
        self.change(forget);
        while !self.viewers().need(need, Instant::now()) {
            let _ = tokio::time::timeout(IDLE, self.came.notified()).await;
        }
    }

    /// Forgets all data but the checks of the settings, which have a time.
    fn forget(&self) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.change(|snapshot| {
            let (doctor, checks) = (std::mem::take(&mut snapshot.doctor), std::mem::take(&mut snapshot.checks));
            *snapshot = Snapshot { doctor, checks, ..Snapshot::default() };
        });
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot.send_modify(|snapshot| {
            change(snapshot);
            snapshot.findings = Arc::default();
        });
    }

    /// Makes a change, and the list of locks that follows from it. Pages see both at once.
    fn change_board(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut next = self.snapshot();
        change(&mut next);
        let board = {
            let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            let sources = Sources {
                found: &found,
                searched_since: next.sweep.completed.map(|(began, _)| began).filter(|_| !next.sweep.is_cut),
                living: &next.living,
                processes: &next.processes,
            };
            sources.board()
        };
        next.are_locks_cut = board.is_cut;
        next.findings = Arc::default();
        if *next.locks != board.rows {
            next.locks = Arc::new(board.rows);
        }
        self.snapshot.send_modify(|snapshot| {
            // Requests read objects of lists meanwhile. Everything else is changed only by the
            // collector's own task.
            next.listed = std::mem::take(&mut snapshot.listed);
            *snapshot = next;
        });
    }

    /// Lists the locks again after reports have come.
    async fn list_reported_locks(&self) {
        loop {
            self.has_report.notified().await;
            self.change_board(|_| {});
            tokio::time::sleep(BOARD_INTERVAL).await;
        }
    }
}

/// A viewer with an open page.
pub(crate) struct Viewer {
    collector: Arc<Collector>,
    id: u64,
}

impl Viewer {
    /// Returns the objects on the screen.
    pub(crate) fn shows(&self, names: Vec<String>) {
        self.collector.viewers().shows(self.id, names, Instant::now());
        // The work ends if no stream is read for a while, as when the console was stopped.
        self.collector.start();
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.collector.viewers().leave(self.id, Instant::now());
    }
}
