//! `redgrid queue ls` and `redgrid queue counts`.

use std::pin::pin;
use std::process::ExitCode;

use clap::Args;
use futures_util::TryStreamExt;
use redgrid::ServerError;
use redgrid::client::Code;
use redgrid::reliable_queue::{Counts, ObjectError};
use redgrid_inspect::{Inspector, ObjectFilter, ObjectKind};
use serde::Serialize;
use tokio::time::timeout_at;

use super::{checked, queue};
use crate::cli::Global;
use crate::failure::{Failure, one_line};
use crate::output::{Cell, Column, Listing, OutputOptions, Row, Tone, notice};
use crate::server::{Reach, Server, server_error};
use crate::text::printable;

/// The end of the help of both commands.
pub(super) const HELP: &str = "\
Columns: name, ready, delayed, in-flight, dead; with -o wide also the totals since the queue was made: pushed, received,
redelivered, acknowledged, returned, died, expired.";

/// The most queues that are read at the same time.
const MAX_IN_FLIGHT: usize = 16;

/// The most names of one command.
const MAX_NAMES: usize = 1_000;

/// Options of `redgrid queue ls`.
#[derive(Debug, Args)]
pub(crate) struct LsOptions {
    /// Only names that match this glob pattern of Redis: orders:*
    #[arg(default_value = "*")]
    pattern: String,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    reach: Reach,
}

/// Options of `redgrid queue counts`.
#[derive(Debug, Args)]
pub(crate) struct CountsOptions {
    /// The queues
    #[arg(required = true, value_name = "NAME", num_args = 1..=MAX_NAMES)]
    names: Vec<String>,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    reach: Reach,
}

/// A queue. The fields are those of its JSON, in their order.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    ready: Option<u64>,
    delayed: Option<u64>,
    in_flight: Option<u64>,
    dead: Option<u64>,
    totals: Option<Totals>,
    /// Why the numbers cannot be read.
    error: Option<String>,
}

/// Totals since the queue was made.
#[derive(Debug, Serialize)]
struct Totals {
    pushed: u64,
    received: u64,
    redelivered: u64,
    acknowledged: u64,
    returned: u64,
    died: u64,
    expired: u64,
}

/// Runs `redgrid queue ls`.
pub(super) async fn ls(global: &Global, options: &LsOptions) -> Result<ExitCode, Failure> {
    let mut listing = Listing::new(global, &options.output)?;
    let server = Server::reach(global, &options.reach).await?;
    let listed = list(&server, &options.pattern, &mut listing).await;
    server.leave().await;
    if listing.end(listed)? == 0 {
        notice(global, "no queue was found");
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(server: &Server, pattern: &str, listing: &mut Listing<Listed>) -> Result<(), Failure> {
    let filter = ObjectFilter::new().matching(pattern).of_kinds([ObjectKind::ReliableQueue]);
    let queues = Inspector::new(server.grid.client()).objects(&filter);
    let queues = queues.map_err(|error| server.failed_listing(&error));
    let mut rows = pin!(queues.map_ok(|queue| read_any(server, queue.name)).try_buffered(MAX_IN_FLIGHT));
    while !listing.is_closed() {
        let row = match listing.due() {
            None => rows.try_next().await,
            Some(due) => match timeout_at(due, rows.try_next()).await {
                Ok(row) => row,
                Err(_) => {
                    listing.flush()?;
                    continue;
                }
            },
        };
        match row? {
            Some(row) => listing.push(&row)?,
            None => break,
        }
    }
    Ok(())
}

/// Runs `redgrid queue counts`.
pub(super) async fn counts(global: &Global, options: &CountsOptions) -> Result<ExitCode, Failure> {
    for name in &options.names {
        checked(name)?;
    }
    let mut listing = Listing::new(global, &options.output)?;
    let server = Server::reach(global, &options.reach).await?;
    for name in &options.names {
        match read(&server, name.clone()).await {
            Ok(row) => listing.push(&row)?,
            Err(failure) => {
                server.leave().await;
                listing.flush()?;
                return Err(failure);
            }
        }
    }
    server.leave().await;
    listing.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the numbers of a queue. If what is stored is not a queue, the row says so.
async fn read_any(server: &Server, name: String) -> Result<Listed, Failure> {
    match queue(server, &name).counts().await {
        Ok(counts) => Ok(Listed::new(name, counts)),
        Err(error) if is_of_this_queue(&error) => Ok(Listed {
            name,
            ready: None,
            delayed: None,
            in_flight: None,
            dead: None,
            totals: None,
            error: Some(one_line(&error)),
        }),
        Err(error) => Err(server.failed(&error)),
    }
}

/// Returns whether other queues can be read nevertheless.
fn is_of_this_queue(error: &ObjectError) -> bool {
    match server_error(error) {
        Some(ServerError::Refused { code, .. }) => *code == Code::WrongType,
        Some(ServerError::Decode { .. }) => true,
        Some(_) => false,
        // The name that was found is none for a queue.
        None => true,
    }
}

async fn read(server: &Server, name: String) -> Result<Listed, Failure> {
    let counts = queue(server, &name).counts().await.map_err(|error| server.failed(&error))?;
    Ok(Listed::new(name, counts))
}

impl Listed {
    fn new(name: String, counts: Counts) -> Self {
        let Counts { ready, delayed, in_flight, dead, totals, .. } = counts;
        let totals = Totals {
            pushed: totals.pushed,
            received: totals.received,
            redelivered: totals.redelivered,
            acknowledged: totals.acknowledged,
            returned: totals.returned,
            died: totals.died,
            expired: totals.expired,
        };
        Listed {
            name,
            ready: Some(ready),
            delayed: Some(delayed),
            in_flight: Some(in_flight),
            dead: Some(dead),
            totals: Some(totals),
            error: None,
        }
    }

    fn total(&self, of: fn(&Totals) -> u64) -> Cell {
        Cell::number(self.totals.as_ref().map(of))
    }
}

impl Row for Listed {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("name", |row| printable(&row.name).into()),
        Column::new("ready", |row| Cell::number(row.ready)),
        Column::new("delayed", |row| Cell::number(row.delayed)),
        Column::new("in-flight", |row| Cell::number(row.in_flight)),
        Column::new("dead", |row| match (row.dead, &row.error) {
            (Some(0), _) => "0".into(),
            (Some(dead), _) => Cell::new(dead.to_string(), Tone::Bad),
            (None, error) => Cell::new(printable(error.as_deref().unwrap_or_default()), Tone::Bad),
        }),
        Column::wide("pushed", |row| row.total(|totals| totals.pushed)),
        Column::wide("received", |row| row.total(|totals| totals.received)),
        Column::wide("redelivered", |row| row.total(|totals| totals.redelivered)),
        Column::wide("acknowledged", |row| row.total(|totals| totals.acknowledged)),
        Column::wide("returned", |row| row.total(|totals| totals.returned)),
        Column::wide("died", |row| row.total(|totals| totals.died)),
        Column::wide("expired", |row| row.total(|totals| totals.expired)),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }
}
