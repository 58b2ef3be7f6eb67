//! Encoding of requests for a node, and retries after a missing script, function or command.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Node;
use crate::clock::Instant;
use crate::connection::link::{Connection, WireCommand, wire};
use crate::connection::request::What;
use crate::connection::traits::of_asking;
use crate::connection::{Arg, Reply, Request};
use crate::error::{Code, ServerError};
use crate::inline_bytes::decimal;
use crate::script::ScriptText;

/// The largest argument that a server accepts: 512 MiB, the default of `proto-max-bulk-len`.
///
/// A larger one makes the server close the connection, and all requests in flight there are lost.
const LARGEST: usize = 512 << 20;

/// The server's exact error text for an unknown function; a function's own errors rarely match it.
const NO_FUNCTION: &str = "ERR Function not found";

/// Returns whether the server does not know the script. A user's script may raise NOSCRIPT itself.
fn is_unknown_script(request: &Request, message: &str) -> bool {
    Code::of(message) == Code::NoScript && request.is_servers_own(message)
}

/// Returns whether the server reports a command for read-only scripts as unknown.
fn is_without(message: &str) -> bool {
    let named = message.strip_prefix("ERR unknown command ").map(|named| named.trim_start_matches(['\'', '`']));
    named.is_some_and(|named| named.starts_with("EVALSHA_RO") || named.starts_with("EVAL_RO"))
}

/// Returns one argument, or an error if it is too large for servers.
fn fitting(word: &Bytes) -> Result<Bytes, ServerError> {
    if word.len() > LARGEST {
        let message = format!("not sent: an argument has {} bytes, and servers take {LARGEST} at most", word.len());
        return Err(ServerError::Refused { code: Code::TooLarge, message });
    }
    Ok(word.clone())
}

/// Loads a library of functions into a server.
async fn load(link: &Connection, code: &Bytes) -> Result<(), ServerError> {
    match link.send(vec!["FUNCTION".into(), "LOAD".into(), code.clone()]).await {
        // Another client was faster, or another library has that name.
        Err(ServerError::Refused { message, .. }) if message.contains("already exists") => Ok(()),
        answer => answer.map(drop),
    }
}

impl Node {
    /// Returns the connection for a request.
    pub(super) fn line(&self, request: &Request) -> &Arc<Connection> {
        self.commands.of(request.keys.first().map(|key| &key[..]))
    }

    /// Sends one request, which must not be executed after `limit`.
    pub(super) fn one<'a>(
        &'a self,
        link: &'a Connection,
        request: &'a Request,
        limit: Option<Instant>,
    ) -> impl Future<Output = Result<Reply, ServerError>> + Send + use<'a> {
        self.carry(link, request, limit, false)
    }

    /// Sends one request, right after ASKING if `asking` is set.
    ///
    /// Behind ASKING, scripts are sent as text: after NOSCRIPT a retry would need another ASKING.
    pub(super) async fn carry(
        &self,
        link: &Connection,
        request: &Request,
        limit: Option<Instant>,
        asking: bool,
    ) -> Result<Reply, ServerError> {
        if let What::Together(parts) = &request.what {
            return Box::pin(self.at_once(asking, parts)).await;
        }
        let (mut whole, mut loaded) = (request.in_order || asking, false);
        loop {
            let command = self.command(request, limit, whole)?;
            if request.dedicated {
                return Box::pin(self.dedicated.send(command)).await;
            }
            let answer = match asking {
                false => link.send(command).await,
                true => of_asking(Box::pin(link.send_together(vec![wire(["ASKING"]), command])).await),
            };
            let Err(ServerError::Refused { message, .. }) = &answer else { return answer };
            // Not executed in any of these cases, so a retry is safe. The deadline argument is
            // encoded anew.
            match (&request.what, message) {
                (What::Script(_), no) if !whole && is_unknown_script(request, no) => whole = true,
                (What::Script(_), no) if self.lacks_read_only(request, no) => {}
                (What::Function { library: Some(code), .. }, no) if !loaded && no == NO_FUNCTION => {
                    loaded = true;
                    // Boxed because it is rare: the future of every call would otherwise have room
                    // for it.
                    match Box::pin(load(link, code)).await {
                        Ok(()) => {}
                        Err(error) if error.is_unknown() => return answer,
                        // A replica receives libraries from its primary, not from clients.
                        Err(error) if request.reads && error.code() == Some(Code::ReadOnly) => return answer,
                        Err(error) => return Err(error),
                    }
                }
                _ => return answer,
            }
        }
    }

    /// Runs one of our own scripts with these keys and arguments. `room` is the maximum number of
    /// arguments.
    ///
    /// For batches: the arguments are taken from many requests without building a combined request.
    pub(super) async fn script<'a>(
        &self,
        (link, body): (&Connection, &ScriptText),
        (keys, args): (impl ExactSizeIterator<Item = &'a Bytes> + Clone, impl Iterator<Item = &'a Arg> + Clone),
        room: usize,
        limit: Option<Instant>,
    ) -> Result<Reply, ServerError> {
        let command = |name: &'static str, script: Bytes| {
            let mut words = Vec::with_capacity(3 + keys.len() + room);
            words.extend([name.into(), script, decimal(keys.len() as i64)]);
            self.behind(words, keys.clone(), args.clone(), limit)
        };
        match link.send(command("EVALSHA", body.sha().clone())?).await {
            Err(ServerError::Refused { message, .. }) if Code::of(&message) == Code::NoScript => {
                // Boxed because it is rare: the sender's future would otherwise have room for it.
                Box::pin(link.send(command("EVAL", body.bytes())?)).await
            }
            answer => answer,
        }
    }

    /// Encodes a request. A script is sent as its `whole` text or as its hash.
    fn command(&self, request: &Request, limit: Option<Instant>, whole: bool) -> Result<WireCommand, ServerError> {
        let mut words = Vec::with_capacity(4 + request.keys.len() + request.args.len());
        let reading = request.read_only && !self.is_without_read_only();
        let key_count = || decimal(request.keys.len() as i64);
        match &request.what {
            What::Command(name) => words.push(name.clone()),
            What::Script(body) => {
                let (name, script) = match (whole, reading) {
                    (false, false) => ("EVALSHA", body.sha().clone()),
                    (false, true) => ("EVALSHA_RO", body.sha().clone()),
                    (true, false) => ("EVAL", body.bytes()),
                    (true, true) => ("EVAL_RO", body.bytes()),
                };
                words.extend([name.into(), script, key_count()]);
            }
            What::Function { name, .. } => {
                let function = if request.read_only { "FCALL_RO" } else { "FCALL" };
                words.extend([function.into(), name.clone(), key_count()]);
            }
            // The parts are sent instead.
            What::Together(_) => words.push("EXEC".into()),
        }
        words.extend(request.subcommand.map(Bytes::from));
        self.behind(words, request.keys_in_front(), &request.args, limit)
    }

    /// Returns whether the server of the current connection is known to lack the commands for
    /// read-only scripts (Redis 6.2).
    fn is_without_read_only(&self) -> bool {
        let connection = self.commands.epoch().borrow().as_ref().map(|epoch| epoch.connection);
        connection.is_some_and(|connection| self.without_read_only.load(Ordering::Relaxed) == connection)
    }

    /// Returns whether `message` reports that the server lacks the command of this request. The
    /// result is stored.
    fn lacks_read_only(&self, request: &Request, message: &str) -> bool {
        let lacks = request.read_only && !self.is_without_read_only() && is_without(message);
        if let Some(epoch) = self.commands.epoch().borrow().as_ref().filter(|_| lacks) {
            self.without_read_only.store(epoch.connection, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Runs the parts of a request as a transaction.
    async fn at_once(&self, asking: bool, parts: &[Request]) -> Result<Reply, ServerError> {
        loop {
            let mut commands = Vec::with_capacity(parts.len());
            for part in parts {
                commands.push(self.command(part, part.not_after, true)?);
            }
            match self.batches.run_transaction(asking, commands).await {
                // No part was executed.
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

    /// Appends keys and arguments to the preceding words.
    fn behind<'a>(
        &self,
        mut words: WireCommand,
        keys: impl IntoIterator<Item = &'a Bytes>,
        args: impl IntoIterator<Item = &'a Arg>,
        limit: Option<Instant>,
    ) -> Result<WireCommand, ServerError> {
        keys.into_iter().try_for_each(|key| fitting(key).map(|key| words.push(key)))?;
        args.into_iter().try_for_each(|arg| {
            let is_sharded = || self.sharded.load(Ordering::Relaxed);
            words.push(match arg {
                Arg::Bytes(bytes) | Arg::Key(bytes) => fitting(bytes)?,
                Arg::NotAfter => self.not_after(limit)?,
                Arg::Publish | Arg::Sharded if is_sharded() => "SPUBLISH".into(),
                Arg::Sharded => return Ok(()),
                Arg::Publish => "PUBLISH".into(),
            });
            Ok(())
        })?;
        Ok(words)
    }

    /// Returns the limit in microseconds since 1970 on the server's clock, as text.
    fn not_after(&self, limit: Option<Instant>) -> Result<Bytes, ServerError> {
        let limit = limit.ok_or_else(|| ServerError::not_sent("the request has no time limit"))?;
        let at = self.time.at(limit, self.clock.now());
        let micros = at.ok_or_else(|| ServerError::not_sent("the server's clock is not known yet"))?;
        Ok(decimal(i64::try_from(micros).unwrap_or(i64::MAX)))
    }
}
