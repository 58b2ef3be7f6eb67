//! Waits until the servers are ready, or until waiting cannot help.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::Client;
use crate::connection::core::Core;
use crate::connection::{Request, Server};
use crate::error::ServerError;

impl Client {
    /// Waits until every primary has answered its handshake.
    ///
    /// # Errors
    ///
    /// [`NotReady::Unavailable`] with the cause, when `timeout` has passed or waiting cannot help.
    /// Waiting cannot help if a host name is unknown, if a server does not speak the expected
    /// protocol (for example, it is an HTTP server, or only one side uses TLS), or if the sentinels
    /// do not know the name of the primary. For a server to which the client has been connected
    /// before, waiting can help.
    ///
    /// [`NotReady::Unauthorized`] as soon as a server refuses the client's password or certificate,
    /// or the client refuses the server's certificate. In that case, waiting does not help. If a
    /// [credential provider](crate::config::CredentialProvider) supplies the password, the error is
    /// returned only after the refusal has lasted for `response_timeout`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_ready(&self, timeout: Duration) -> Result<(), NotReady> {
        let began = self.0.core.clock.now();
        let (why, waited) = match tokio::time::timeout(timeout, ready(&self.0.core)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(why)) => {
                let waited = self.0.core.clock.now().since(began);
                // The time is rounded down, so that the message shows whole milliseconds.
                (why, waited - Duration::from_nanos(u64::from(waited.subsec_nanos() % 1_000_000)))
            }
            Err(_) => (self.missing().await, timeout),
        };
        Err(match why {
            ServerError::ShuttingDown => NotReady::ShuttingDown,
            source @ ServerError::Unauthorized { .. } => NotReady::Unauthorized { source },
            source => NotReady::Unavailable { waited, source },
        })
    }

    /// Returns why a primary is not connected. Servers that are connected but hang are ignored.
    async fn missing(&self) -> ServerError {
        let mut why = ServerError::not_sent("not connected");
        let down = |server: &Arc<dyn Server>| server.current_connection_id().is_none();
        for server in self.0.core.topology.primaries().into_iter().filter(down) {
            if let Err(error) = server.call_one(Request::command("PING")).await {
                why = error;
            }
        }
        why
    }
}

/// Completes when every primary has answered its handshake.
///
/// # Errors
///
/// If a primary has an error in [`Server::refusal`], that error is returned at once. If the client
/// has ended, the error says why it has ended.
async fn ready(core: &Core) -> Result<(), ServerError> {
    let mut changes = core.topology.changes();
    loop {
        if let Some(ended) = core.life.error() {
            return Err(ended);
        }
        let primaries = core.topology.primaries();
        let all = async {
            for server in &primaries {
                if server.connection_id().wait_for(Option::is_some).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        let refused = async {
            let mut refusals: FuturesUnordered<_> = primaries.iter().map(refusal_of).collect();
            match refusals.next().await {
                Some(refused) => refused,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = all => return Ok(()),
            refused = refused => return Err(refused),
            () = core.life.over() => {}
            Ok(()) = changes.changed() => {}
        }
    }
}

/// Completes once waiting is useless, because each primary has an error in [`Server::refusal`].
/// Returns one of these errors.
pub(crate) async fn refused(core: &Core) -> ServerError {
    let mut changes = core.topology.changes();
    loop {
        let primaries = core.topology.primaries();
        let by_all = async {
            match join_all(primaries.iter().map(refusal_of)).await.pop() {
                Some(refused) => refused,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            refused = by_all => return refused,
            changed = changes.changed() => if changed.is_err() { std::future::pending::<()>().await },
        }
    }
}

/// Waits for the error that makes waiting for a server useless. Never completes if the server is
/// closed first.
async fn refusal_of(server: &Arc<dyn Server>) -> ServerError {
    let refused = server.refusal().wait_for(Option::is_some).await.ok().and_then(|refused| refused.clone());
    match refused {
        Some(refused) => refused,
        None => std::future::pending().await,
    }
}

/// Why a client is not ready.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// Not every primary answered in time, or waiting for a primary cannot help, or the runtime of
    /// the client has ended.
    #[error("not every server answered within {waited:?}: {source}")]
    Unavailable {
        /// How long the call waited.
        waited: Duration,
        /// Why a server is not connected.
        #[source]
        source: ServerError,
    },
    /// A server refuses the password, the user or the certificate of this client, or this client
    /// refuses the server's certificate.
    ///
    /// The client keeps trying, in case the cause is corrected.
    #[error("a server does not accept this client, or its certificate is rejected: {source}")]
    Unauthorized {
        /// The message of the server, or what is wrong with the certificate.
        #[source]
        source: ServerError,
    },
    /// The client was shut down.
    #[error("the client is shut down")]
    ShuttingDown,
}
