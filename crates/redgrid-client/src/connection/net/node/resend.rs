//! Requests that take more than one command:
//!
//! - A request is sent again if the server does not have its script, function or command.
//! - A request to the target node of a slot migration is sent right after ASKING.
//! - Requests that are executed together are sent after MULTI.

use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Node;
use crate::clock::Instant;
use crate::connection::link::{Connection, WireCommand, wire};
use crate::connection::request::What;
use crate::connection::traits::of_asking;
use crate::connection::{Reply, Request};
use crate::error::{Code, ServerError};

/// The server's exact error text for an unknown function; a function's own errors rarely match it.
const NO_FUNCTION: &str = "ERR Function not found";

/// Returns whether the error shows that the server does not have the script. Returns false for a
/// NOSCRIPT that a user's script has raised itself.
fn is_unknown_script(request: &Request, message: &str) -> bool {
    Code::of(message) == Code::NoScript && request.is_servers_own(message)
}

/// Returns whether the error says that a command for read-only scripts is unknown.
fn is_without(message: &str) -> bool {
    let named = message.strip_prefix("ERR unknown command ").map(|named| named.trim_start_matches(['\'', '`']));
    named.is_some_and(|named| named.starts_with("EVALSHA_RO") || named.starts_with("EVAL_RO"))
}

/// Returns whether the refused request may succeed if it is sent in another form, such as the text
/// of a script instead of its hash. This check is cheap; [`Node::send_again`] makes the exact
/// check.
pub(super) fn may_help(request: &Request, refused: &Result<Reply, ServerError>) -> bool {
    let Err(ServerError::Refused { message, .. }) = refused else { return false };
    match &request.what {
        What::Script(_) => Code::of(message) == Code::NoScript || is_without(message),
        What::Function { library, .. } => library.is_some() && message == NO_FUNCTION,
        What::Command(_) | What::Together(_) => false,
    }
}

async fn load(link: &Connection, code: &Bytes) -> Result<(), ServerError> {
    match link.send(vec!["FUNCTION".into(), "LOAD".into(), code.clone()]).await {
        // Another client has loaded the library meanwhile, or another library has that name. The
        // repeated call shows which of the two has happened.
        Err(ServerError::Refused { message, .. }) if message.contains("already exists") => Ok(()),
        answer => answer.map(drop),
    }
}

impl Node {
    /// Sends a request right after ASKING.
    ///
    /// Scripts are sent as text, because a retry after NOSCRIPT would need another ASKING.
    pub(super) async fn send_asking(&self, request: &Request) -> Result<Reply, ServerError> {
        let (link, limit) = (self.link_for(request), request.limit());
        if request.dedicated || matches!(request.what, What::Together(_)) {
            return self.send_elsewhere(request, limit, true).await;
        }
        let answer = transmit(link, self.encode(request, limit, true)?, true).await;
        self.send_again(link, request, limit, true, answer).await
    }

    pub(super) async fn send_elsewhere(
        &self,
        request: &Request,
        limit: Option<Instant>,
        asking: bool,
    ) -> Result<Reply, ServerError> {
        match &request.what {
            What::Together(parts) => self.at_once(asking, parts).await,
            _ => self.dedicated.send(self.encode(request, limit, request.in_order || asking)?).await,
        }
    }

    /// Sends a request again while the server answers that the script, function or command is
    /// unknown.
    ///
    /// In these cases the server did not execute the request, so sending it again is safe. The
    /// deadline argument is encoded anew each time.
    pub(super) async fn send_again(
        &self,
        link: &Connection,
        request: &Request,
        limit: Option<Instant>,
        asking: bool,
        mut answer: Result<Reply, ServerError>,
    ) -> Result<Reply, ServerError> {
        let (mut whole, mut loaded) = (request.in_order || asking, false);
        loop {
            let Err(ServerError::Refused { message, .. }) = &answer else { return answer };
            match (&request.what, message) {
                (What::Script(_), no) if !whole && is_unknown_script(request, no) => whole = true,
                (What::Script(_), no) if self.lacks_read_only(request, no) => {}
                (What::Function { library: Some(code), .. }, no) if !loaded && no == NO_FUNCTION => {
                    loaded = true;
                    match load(link, code).await {
                        Ok(()) => {}
                        Err(error) if error.is_unknown() => return answer,
                        // A replica receives libraries only from its primary, so loading cannot
                        // help.
                        Err(error) if request.reads && error.code() == Some(Code::ReadOnly) => return answer,
                        Err(error) => return Err(error),
                    }
                }
                _ => return answer,
            }
            answer = transmit(link, self.encode(request, limit, whole)?, asking).await;
        }
    }

    /// Returns whether the server of the current connection is known to lack the commands for
    /// read-only scripts, as Redis 6.2 does.
    pub(super) fn is_without_read_only(&self) -> bool {
        let connection = self.commands.epoch().borrow().as_ref().map(|epoch| epoch.connection);
        connection.is_some_and(|connection| self.without_read_only.load(Ordering::Relaxed) == connection)
    }

    /// Returns whether `message` shows for the first time on this connection that the server lacks
    /// the read-only command of this request. If so, records this for the connection.
    fn lacks_read_only(&self, request: &Request, message: &str) -> bool {
        let lacks = request.read_only && !self.is_without_read_only() && is_without(message);
        if let Some(epoch) = self.commands.epoch().borrow().as_ref().filter(|_| lacks) {
            self.without_read_only.store(epoch.connection, Ordering::Relaxed);
            return true;
        }
        false
    }

    async fn at_once(&self, asking: bool, parts: &[Request]) -> Result<Reply, ServerError> {
        loop {
            let mut commands = Vec::with_capacity(parts.len());
            for part in parts {
                commands.push(self.encode(part, part.not_after, true)?);
            }
            match self.batches.run_transaction(asking, commands).await {
                // None of the requests was executed, so all are sent again.
                Err(ServerError::Refused { message, .. })
                    if parts.iter().any(|part| self.lacks_read_only(part, &message)) => {}
                answer => {
                    if answer.as_ref().is_err_and(|error| error.code() == Some(Code::ReadOnly)) {
                        self.commands.report_read_only();
                    }
                    return answer;
                }
            }
        }
    }
}

async fn transmit(link: &Connection, command: WireCommand, asking: bool) -> Result<Reply, ServerError> {
    match asking {
        false => link.send(command).await,
        true => of_asking(link.send_together(vec![wire(["ASKING"]), command]).await),
    }
}
