//! A connection to a node for one purpose, opened on first use.
//!
//! A node has one such connection for MULTI/EXEC, whose commands must not be interleaved with other
//! commands. It has a second connection for SCRIPT KILL, which must not queue behind other
//! requests. A server whose script runs for too long accepts SCRIPT KILL, but answers no handshake.
//! So the connection for SCRIPT KILL is treated as ready without an answered handshake.
//!
//! # Why all or none
//!
//! MULTI and the commands are written back to back, as one piece. So all of them use one
//! connection, or are lost with it. EXEC is sent only after the server has confirmed that every
//! command is queued. On a connection that was opened meanwhile, the server would refuse EXEC. If
//! EXEC is not sent, the queued commands are discarded. If MULTI were refused, the server would
//! execute the commands one by one. So the permission for MULTI is checked first, once per
//! connection.
//!
//! A keep-alive request may be sent on the connection before EXEC. The server then queues it after
//! the commands. In the result of EXEC, its reply comes after the replies of the commands.
//!
//! # Which server process
//!
//! The connection must lead to the same process as the connections for requests; otherwise nothing
//! is executed. The processes can differ if the address now belongs to another server. Older
//! connections then still lead to the former server, which continues to answer. If two connections
//! lead to different processes, the older connection is replaced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::clock::Instant;
use crate::connection::endpoint::Connections;
use crate::connection::link::{Connection, Handshake, WireCommand, wire};
use crate::connection::pool::ConnectionPool;
use crate::connection::{ConnectionId, Reply};
use crate::error::{Code, ServerError};

pub(crate) struct DedicatedConnection {
    connections: Arc<Connections>,
    /// The connections for requests. `None` if this connection need not lead to the same process as
    /// the connections for requests.
    request_pool: Option<Arc<ConnectionPool>>,
    link: OnceLock<Arc<Connection>>,
    in_use: Arc<tokio::sync::Mutex<()>>,
    /// The [number](ConnectionId::connection) of the connection on which MULTI is known to be
    /// permitted.
    permitted: AtomicU64,
}

impl DedicatedConnection {
    /// Creates the connection without opening it. If `request_pool` is given, the connection
    /// must lead to the same process as the connections of the pool. Otherwise it is for commands
    /// that a server accepts while a script runs for too long.
    pub(crate) fn new(connections: &Arc<Connections>, request_pool: Option<Arc<ConnectionPool>>) -> Arc<Self> {
        Arc::new(DedicatedConnection {
            connections: Arc::clone(connections),
            request_pool,
            link: OnceLock::new(),
            in_use: Arc::default(),
            permitted: AtomicU64::new(0),
        })
    }

    /// Sends one command, after waiting for exclusive use of the connection.
    pub(crate) async fn send(&self, command: WireCommand) -> Result<Reply, ServerError> {
        let (link, _, _guard) = self.lock_link().await?;
        link.send(command).await
    }

    /// Executes all of `commands`, or none.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits for exclusive use of the connection, nothing is
    /// sent. If it is dropped later, the transaction runs to its end in the background.
    pub(crate) async fn run_transaction(
        self: &Arc<Self>,
        asking: bool,
        commands: Vec<WireCommand>,
    ) -> Result<Reply, ServerError> {
        let ((link, epoch, guard), this) = (self.lock_link().await?, Arc::clone(self));
        let work = tokio::spawn(async move {
            let answer = this.carry_out((&link, &epoch), asking, commands).await;
            drop(guard);
            answer
        });
        work.await.unwrap_or_else(|_| Err(ServerError::unknown("the task that executes the request has ended")))
    }

    /// Waits for exclusive use of the connection, and for its handshake. Together, the two waits
    /// take at most one response timeout.
    ///
    /// Returns the connection with its id.
    async fn lock_link(
        &self,
    ) -> Result<(Arc<Connection>, ConnectionId, tokio::sync::OwnedMutexGuard<()>), ServerError> {
        let target = &self.connections.target;
        let by = target.clock.now() + target.settings.response_timeout;
        let link = self.link();
        let locking = Arc::clone(&self.in_use).lock_owned();
        let guard = self
            .in_time(by, locking)
            .await
            .ok_or_else(|| ServerError::not_sent("earlier requests took too much time"))?;
        let mut epoch = link.epoch();
        let up = async {
            tokio::select! {
                up = epoch.wait_for(Option::is_some) => up.ok().and_then(|epoch| epoch.clone()),
                () = link.closing() => None,
            }
        };
        let epoch = self.in_time(by, up).await.flatten().ok_or_else(|| link.down())?;
        Ok((link, epoch, guard))
    }

    async fn in_time<T>(&self, by: Instant, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.connections.target.clock.sleep_until(by) => None,
        }
    }

    fn link(&self) -> Arc<Connection> {
        let open = || match self.request_pool {
            Some(_) => self.connections.open("batches", Handshake::Identity),
            None => self.connections.open("aside", Handshake::Nothing),
        };
        Arc::clone(self.link.get_or_init(open))
    }

    async fn carry_out(
        &self,
        (link, epoch): (&Connection, &ConnectionId),
        asking: bool,
        commands: Vec<WireCommand>,
    ) -> Result<Reply, ServerError> {
        let connection = epoch.connection;
        self.check_process(link, epoch)?;
        if self.permitted.load(Ordering::Relaxed) != connection {
            link.send(wire(["MULTI"])).await?;
            forget(link).await;
            self.permitted.store(connection, Ordering::Relaxed);
        }
        let names: Vec<_> = commands.iter().map(|command| command[0].clone()).collect();
        let asking_command = asking.then(|| wire(["ASKING"]));
        let multi = wire(["MULTI"]);
        let mut queued =
            link.send_together(asking_command.into_iter().chain([multi]).chain(commands).collect()).await.into_iter();
        let began: Vec<_> = queued.by_ref().take(1 + usize::from(asking)).collect();
        let queued: Vec<_> = queued.collect();
        if let Some(Err(error)) = began.iter().find(|answer| answer.is_err()) {
            link.renew();
            // If MULTI was refused, the server executed each command at once instead of queueing
            // it. If only ASKING was refused, the server queued the commands. It will never execute
            // them, because EXEC is not sent.
            let alone = matches!(began.last(), Some(Err(ServerError::Refused { .. })))
                && queued.iter().any(|answer| !matches!(answer, Err(ServerError::Refused { .. })));
            let text = format!("the commands of a transaction may have been executed one by one: {error}");
            return Err(if alone { ServerError::unknown(text) } else { nothing(error) });
        }
        if let Some(at) = queued.iter().position(|answer| !is_queued(answer)) {
            forget(link).await;
            return Err(match &queued[at] {
                Err(ServerError::Refused { code, message }) if !code.is_passing() => {
                    let (code, nth, of) = (*code, at + 1, names.len());
                    let name = String::from_utf8_lossy(&names[at]);
                    let message = format!("{message} (`{name}`, command {nth} of {of}: none was executed)");
                    ServerError::Refused { code, message }
                }
                Err(error) => nothing(error),
                Ok(_) => ServerError::not_sent("a command was not queued after MULTI"),
            });
        }
        // If the connection was replaced, it may lead to another process, so EXEC is not sent.
        if link.epoch().borrow().as_ref() != Some(epoch) {
            forget(link).await;
            return Err(ServerError::not_sent("the connection was replaced before EXEC"));
        }
        match link.send(wire(["EXEC"])).await.map_err(discarded) {
            Ok(Reply::Array(mut answers)) if answers.len() >= names.len() => {
                if answers.len() > names.len() {
                    // A probe or a handshake ran within the transaction. The server queued the
                    // commands of the probe or handshake, too, so they got unexpected replies.
                    link.renew();
                    answers.truncate(names.len());
                }
                Ok(Reply::Array(answers))
            }
            Ok(other) => {
                link.renew();
                Err(other.misfit("a list of replies to the queued commands"))
            }
            Err(ServerError::Refused { code: Code::Other, message }) if message.contains("without MULTI") => {
                Err(ServerError::not_sent("the connection was replaced before EXEC"))
            }
            Err(error) => {
                if error.is_unknown() {
                    link.renew();
                }
                Err(error)
            }
        }
    }

    /// Checks that this connection leads to the same process as the connections for requests.
    ///
    /// If the user is not allowed to read the `run_id`, the processes are treated as the same.
    fn check_process(&self, link: &Connection, epoch: &ConnectionId) -> Result<(), ServerError> {
        let Some(request_pool) = &self.request_pool else { return Ok(()) };
        let Some(there) = request_pool.epoch().borrow().clone() else { return Err(request_pool.down()) };
        if there.run_id == epoch.run_id || there.run_id.is_empty() || epoch.run_id.is_empty() {
            return Ok(());
        }
        if there.connection > epoch.connection {
            link.renew();
        } else {
            request_pool.reconnect("the connections lead to different server processes");
        }
        Err(ServerError::not_sent("the address leads to another server process now"))
    }
}

/// Discards the queued commands by DISCARD. If that fails, the connection is replaced.
async fn forget(link: &Connection) {
    if link.send(wire(["DISCARD"])).await.is_err() {
        link.renew();
    }
}

fn is_queued(answer: &Result<Reply, ServerError>) -> bool {
    matches!(answer, Ok(Reply::Bytes(text)) if &text[..] == b"QUEUED")
}

/// Returns the error of a transaction whose EXEC was not sent. None of its commands was executed.
fn nothing(error: &ServerError) -> ServerError {
    match error {
        ServerError::Refused { .. } => error.clone(),
        other => ServerError::not_sent(format!("nothing was executed, because EXEC was not sent: {other}")),
    }
}

/// Converts the error of EXEC. If the error contains the server's reason for discarding the queued
/// commands, returns that reason as the error. Otherwise returns the error unchanged.
///
/// If the server gives such a reason, the transaction had no effect, like a single command that is
/// refused.
fn discarded(error: ServerError) -> ServerError {
    let why = |message: &str| message.strip_prefix("EXECABORT Transaction discarded because of: ").map(str::to_owned);
    match &error {
        ServerError::Refused { message, .. } => why(message).map_or(error, ServerError::refused),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_discarded_for_a_passing_reason_reports_that_reason() {
        let code = |message: &str| discarded(ServerError::refused(message)).code();
        let because = |why: &str| code(&format!("EXECABORT Transaction discarded because of: {why}"));
        assert_eq!(because("READONLY You can't write against a read only replica."), Some(Code::ReadOnly));
        assert_eq!(because("NOREPLICAS Not enough good replicas to write."), Some(Code::NoReplicas));
        assert_eq!(because("OOM command not allowed when used memory > 'maxmemory'."), Some(Code::OutOfMemory));
        assert_eq!(code("EXECABORT Transaction discarded because of previous errors."), Some(Code::Other));
        assert!(discarded(ServerError::unknown("cut")).is_unknown());
    }
}
