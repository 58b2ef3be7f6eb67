//! The blocks of README.md and docs/ that need more than a single server, or do not end with `Ok`.
//! Each other block is expected to do so.

use crate::Snippet;
use crate::deployment::Servers::{self, Cluster, Newest, Quorum, Sentinels, Single};

use Expected::{Ends, Fails, Runs};

/// The expected outcome of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It ends with `Ok`.
    Ends,
    /// It continues without an error: it waits for others, listens or works.
    Runs,
    /// It ends with an error that contains this text.
    Fails(&'static str),
}

/// A block, by its page and its number among the Rust blocks of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) page: &'static str,
    pub(crate) number: usize,
    pub(crate) expected: Expected,
    pub(crate) servers: Servers,
    /// The block of the page that runs before it.
    pub(crate) after: Option<usize>,
}

const fn row(page: &'static str, number: usize, expected: Expected) -> Row {
    Row { page, number, expected, servers: Single, after: None }
}

impl Row {
    const fn on(self, servers: Servers) -> Row {
        Row { servers, ..self }
    }

    const fn after(self, number: usize) -> Row {
        Row { after: Some(number), ..self }
    }

    /// Returns the row of the block, or the default.
    pub(crate) fn of(snippet: &Snippet) -> Row {
        let listed = ROWS.iter().find(|row| row.page == snippet.page && row.number == snippet.number);
        listed.copied().unwrap_or(row(snippet.page, snippet.number, Ends))
    }
}

pub(crate) const ROWS: &[Row] = &[
    row("docs/getting-started.md", 1, Runs), // its work takes 20 s
    row("docs/guides/scheduled-jobs.md", 1, Runs),
    row("docs/guides/scheduled-jobs.md", 2, Runs),
    row("docs/guides/scheduled-jobs.md", 3, Runs),
    row("docs/guides/web-services.md", 1, Runs),
    row("docs/guides/workers.md", 1, Runs),
    row("docs/objects/barriers.md", 1, Runs), // waits for two others
    row("docs/objects/barriers.md", 2, Runs), // waits for three others
    row("docs/objects/barriers.md", 4, Runs),
    row("docs/objects/caches.md", 3, Ends).on(Newest), // entries of a hash with a lifetime
    row("docs/objects/caches.md", 5, Runs),
    row("docs/objects/countdown-latch.md", 1, Runs), // waits for two others
    row("docs/objects/delayed-queues.md", 1, Runs),
    row("docs/objects/election.md", 3, Runs),
    row("docs/objects/events.md", 1, Runs),
    row("docs/objects/keyspace.md", 3, Fails("a client with a namespace")),
    row("docs/objects/objects.md", 1, Ends).on(Newest), // conditions of EXPIRE
    row("docs/objects/objects.md", 3, Fails("`session:42` does not exist")),
    row("docs/objects/queues.md", 2, Runs),
    row("docs/objects/quorum-lock.md", 1, Ends).on(Quorum),
    row("docs/objects/quorum-lock.md", 2, Ends).on(Quorum),
    row("docs/objects/quorum-lock.md", 3, Ends).on(Quorum),
    row("docs/objects/rate-limiters.md", 3, Ends).after(1),
    row("docs/objects/rate-limiters.md", 4, Ends).after(1),
    row("docs/objects/reliable-queue.md", 2, Runs), // waits 30 s for a message
    row("docs/objects/scripts.md", 3, Ends).on(Newest), // functions
    row("docs/objects/sharded.md", 1, Ends).on(Cluster),
    row("docs/objects/topics.md", 3, Ends).on(Newest), // sharded channels
    row("docs/operating/observability.md", 2, Runs),
    row("docs/operating/topologies.md", 1, Ends).on(Cluster),
    row("docs/operating/topologies.md", 2, Ends).on(Sentinels),
];
