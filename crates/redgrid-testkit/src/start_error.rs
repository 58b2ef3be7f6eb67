//! Reasons why a server does not start.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use crate::{FindError, TopologyError};

/// The server does not run as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no server program to start.
    #[error(transparent)]
    NotFound(#[from] FindError),
    /// Files or processes could not be created. No server runs.
    #[error("cannot set up the server: {0}")]
    Setup(#[from] io::Error),
    /// Another process listens on the server's port. No server runs.
    #[error("the port of {addr} was taken by another process")]
    PortTaken {
        /// The address of the port.
        addr: SocketAddr,
    },
    /// The server ended by itself, usually because of a configuration line. No server runs.
    #[error("the server ended at once; its log says: {log}")]
    Exited {
        /// The server's log.
        log: String,
    },
    /// TLS was requested, and the program was built without it. No server runs.
    #[error("the server program {} was built without TLS", path.display())]
    NoTls {
        /// The program.
        path: PathBuf,
    },
    /// The server did not answer in time, and was killed.
    #[error("the server did not answer PING within {waited:?}; its log says: {log}")]
    NotReady {
        /// The time limit.
        waited: Duration,
        /// The server's log.
        log: String,
    },
    /// The data could not be saved before the restart. The server was not restarted.
    #[error("the server cannot save its data before the restart: {source}")]
    NotSaved {
        /// The server's reply.
        source: redis::RedisError,
    },
    /// The servers started, and did not become one deployment. All of them were ended.
    #[error("the servers did not form a deployment: {0}")]
    NotFormed(#[from] TopologyError),
}
