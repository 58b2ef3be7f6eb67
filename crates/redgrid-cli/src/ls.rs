//! `redgrid ls`: lists the held locks of all nodes, or objects of other kinds.

use std::pin::pin;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use futures_util::TryStreamExt;
use redgrid_inspect::{Inspector, ObjectFilter, ObjectKind, ObjectView};
use serde::Serialize;
use tokio::time::timeout_at;

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::{Cell, Column, Listing, OutputOptions, Row, Tone, notice};
use crate::server::{Reach, Server};
use crate::text::{printable, time_text};

/// The end of `redgrid ls --help`.
pub(crate) const HELP: &str = "\
Columns: name, kind, client, lease; with -o wide also number and size. A lock whose lease is `none` stays taken until it
is released.";

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
    output: OutputOptions,
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
    let mut listing = Listing::new(global, &options.output)?;
    let server = Server::reach(global, &options.reach).await?;
    let listed = list(&server, options, &mut listing).await;
    server.leave().await;
    if listing.end(listed)? == 0 {
        notice(global, "nothing was found");
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(server: &Server, options: &LsOptions, listing: &mut Listing<Listed>) -> Result<(), Failure> {
    let mut filter = ObjectFilter::new().matching(&options.pattern);
    if !options.kind.contains(&Kinds::All) {
        filter = filter.of_kinds(options.kind.iter().flat_map(|kind| kind.kinds()).copied());
    }
    let mut objects = pin!(Inspector::new(server.grid.client()).objects(&filter));
    while !listing.is_closed() {
        let object = match listing.due() {
            None => objects.try_next().await,
            Some(due) => match timeout_at(due, objects.try_next()).await {
                Ok(object) => object,
                Err(_) => {
                    listing.flush()?;
                    continue;
                }
            },
        };
        match object.map_err(|error| server.failed_listing(&error))? {
            Some(object) => listing.push(&Listed::from(object))?,
            None => break,
        }
    }
    Ok(())
}

impl From<ObjectView> for Listed {
    fn from(view: ObjectView) -> Self {
        let (client, number) = view.holder.unzip();
        let lease_left_ms = view.lifetime.and_then(|left| u64::try_from(left.as_millis()).ok());
        Listed { name: view.name, kind: view.kind.as_str(), client, number, lease_left_ms, size: view.size }
    }
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("name", |row| printable(&row.name).into()),
        Column::new("kind", |row| row.kind.into()),
        Column::new("client", |row| row.client.as_deref().map(printable).into()),
        Column::wide("number", |row| Cell::number(row.number)),
        Column::new("lease", |row| match (row.lease_left_ms, &row.client) {
            (Some(left), _) => time_text(left).into(),
            // A held lock without a lifetime stays taken until it is released.
            (None, Some(_)) => Cell::new("none", Tone::Doubtful),
            (None, None) => "".into(),
        }),
        // The length of a number says nothing.
        Column::wide("size", |row| Cell::number(row.size.filter(|_| row.kind != ObjectKind::Number.as_str()))),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }
}
