//! `redgrid ls`: lists the held locks of all nodes, or objects of other kinds.

use std::pin::pin;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use futures_util::TryStreamExt;
use redgrid::Failure as RequestFailure;
use redgrid_inspect::{InspectError, Inspector, ObjectFilter, ObjectKind, ObjectView};
use serde::Serialize;

use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::server::{Reach, Server, print_json, print_line};
use crate::text::{holder_text, lease_text, printable};

/// Options of `redgrid ls`.
#[derive(Debug, Args)]
pub(crate) struct LsOptions {
    /// Only names that match this glob pattern of Redis: orders:*
    #[arg(default_value = "*")]
    pattern: String,
    /// Only objects of these kinds, separated by commas
    #[arg(long, value_name = "KINDS", value_enum, value_delimiter = ',', default_value = "lock")]
    kind: Vec<Kinds>,
    #[command(flatten)]
    reach: Reach,
}

/// Kinds of objects, as the command line names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kinds {
    /// Held locks with one holder: plain, fair, fenced, of an election
    Lock,
    /// Held read-write locks
    Rw,
    /// Semaphores with leases, and fair ones; others are numbers
    Semaphore,
    /// Latches
    Latch,
    /// Rate limiters
    Limiter,
    /// Barriers, phasers, events, conditions, notifications
    Barrier,
    /// Atomic numbers, semaphores without leases, adders, id generators
    Number,
    /// Reliable and delayed queues; other queues are lists
    Queue,
    /// Reliable topics
    Topic,
    /// Maps, multimaps, and caches
    Map,
    /// Sets
    Set,
    /// Sorted sets, positions, priority queues
    SortedSet,
    /// Lists, queues
    List,
    /// Buckets, bit sets
    String,
    /// Streams
    Stream,
    /// Bloom filters
    Filter,
    /// Values of a server's module
    Other,
    /// All objects
    All,
}

impl Kinds {
    fn kinds(self) -> &'static [ObjectKind] {
        match self {
            Kinds::Lock => &[ObjectKind::Lock, ObjectKind::FairLock, ObjectKind::Election],
            Kinds::Rw => &[ObjectKind::ReadWriteLock],
            Kinds::Semaphore => &[ObjectKind::Semaphore, ObjectKind::PermitExpirableSemaphore],
            Kinds::Latch => &[ObjectKind::CountDownLatch],
            Kinds::Limiter => &[ObjectKind::RateLimiter],
            Kinds::Barrier => &[
                ObjectKind::Barrier,
                ObjectKind::DoubleBarrier,
                ObjectKind::Phaser,
                ObjectKind::Event,
                ObjectKind::Condition,
                ObjectKind::Notify,
            ],
            Kinds::Number => &[ObjectKind::Number, ObjectKind::Adder, ObjectKind::IdGenerator],
            Kinds::Queue => &[ObjectKind::ReliableQueue, ObjectKind::DelayedQueue, ObjectKind::RingBuffer],
            Kinds::Topic => &[ObjectKind::ReliableTopic],
            Kinds::Map => &[ObjectKind::Map, ObjectKind::MapCache],
            Kinds::Set => &[ObjectKind::Set],
            Kinds::SortedSet => &[ObjectKind::SortedSet],
            Kinds::List => &[ObjectKind::List],
            Kinds::String => &[ObjectKind::String],
            Kinds::Stream => &[ObjectKind::Stream],
            Kinds::Filter => &[ObjectKind::BloomFilter],
            Kinds::Other => &[ObjectKind::Other],
            Kinds::All => &[],
        }
    }
}

/// An object. The fields are those of its JSON line, in its order.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    kind: &'static str,
    client: Option<String>,
    number: Option<u64>,
    lease_left_ms: Option<u64>,
    size: Option<u64>,
}

/// Runs `redgrid ls`: prints a line for each object of every primary, as soon as it is found.
pub(crate) async fn run(global: &Global, options: &LsOptions) -> Result<ExitCode, Failure> {
    let server = Server::reach(global, &options.reach).await?;
    let listed = list(&server, options, global.json).await;
    server.leave().await;
    listed.map(|()| ExitCode::SUCCESS)
}

async fn list(server: &Server, options: &LsOptions, json: bool) -> Result<(), Failure> {
    let mut filter = ObjectFilter::new().matching(&options.pattern);
    if !options.kind.contains(&Kinds::All) {
        filter = filter.of_kinds(options.kind.iter().flat_map(|kind| kind.kinds()).copied());
    }
    let mut objects = pin!(Inspector::new(server.grid.client()).objects(&filter));
    while let Some(object) = objects.try_next().await.map_err(|error| failed(server, &error))? {
        let object = Listed::from(object);
        if json { print_json(&object) } else { print_line(&object.text()) }?;
    }
    Ok(())
}

fn failed(server: &Server, error: &InspectError) -> Failure {
    match error {
        InspectError::Failed(RequestFailure::InvalidArgument { .. }) => Failure::usage(one_line(error)),
        error => server.failed(error),
    }
}

impl From<ObjectView> for Listed {
    fn from(view: ObjectView) -> Self {
        let (client, number) = view.holder.unzip();
        let lease_left_ms = view.lifetime.and_then(|left| u64::try_from(left.as_millis()).ok());
        Listed { name: view.name, kind: view.kind.as_str(), client, number, lease_left_ms, size: view.size }
    }
}

impl Listed {
    fn text(&self) -> String {
        let name = printable(&self.name);
        let lease = lease_text(self.lease_left_ms);
        // The length of a number says nothing.
        let size = self.size.filter(|_| self.kind != ObjectKind::Number.as_str());
        let size = size.map(|size| format!(", size {size}")).unwrap_or_default();
        match &self.client {
            Some(client) if self.kind == ObjectKind::Lock.as_str() => {
                format!("{name}  {}, {lease}", holder_text(client, self.number))
            }
            Some(client) => format!("{name}  {}, {}, {lease}", self.kind, holder_text(client, self.number)),
            None if self.lease_left_ms.is_none() => format!("{name}  {}{size}", self.kind),
            None => format!("{name}  {}{size}, {lease}", self.kind),
        }
    }
}
