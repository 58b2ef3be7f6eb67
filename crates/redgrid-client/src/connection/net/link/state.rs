//! The reason why a connection is down, and whether waiting can help.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use super::pipeline::{Pipeline, Unanswered};
use crate::connection::trouble::{Kind, Trouble, readable};
use crate::error::ServerError;

impl Connection {
    pub(crate) fn down(&self) -> ServerError {
        self.refusal().unwrap_or_else(|| self.unconnected())
    }

    fn unconnected(&self) -> ServerError {
        ServerError::not_sent(format!("no connection to {}: {}", self.target.place, self.trouble()))
    }

    /// Returns the error for requests if waiting cannot help: the server rejects this client, or
    /// the target is wrong ([`Kind::Lasting`]).
    ///
    /// With a credential provider, the error for a rejected login is returned only after a grace
    /// period. The error for a wrong target is returned only if the connection has never been up.
    fn refusal(&self) -> Option<ServerError> {
        let (kind, since) = {
            let state = self.state.lock();
            (state.trouble.kind, state.refused_since)
        };
        match kind {
            Kind::Passing => None,
            Kind::Unauthorized => {
                // While the password is being changed, the server and the provider may have
                // different passwords.
                let grace = if self.login.is_some() { self.timeout() } else { Duration::ZERO };
                let is_over = since.is_some_and(|since| since.elapsed() >= grace);
                is_over.then(|| self.unauthorized(self.trouble()))
            }
            Kind::Lasting => (!self.has_been_up.load(Ordering::Acquire)).then(|| self.unconnected()),
        }
    }

    /// Builds the error of a rejected client. The server's text comes first: it contains the error
    /// code.
    fn unauthorized(&self, message: String) -> ServerError {
        ServerError::Unauthorized { message: format!("{message} (at {})", self.target.place) }
    }

    pub(super) fn unanswered(&self, pipeline: &Pipeline, why: Unanswered) -> ServerError {
        let place = &self.target.place;
        match why {
            Unanswered::NotWritten => ServerError::not_sent(format!("no connection to {place}")),
            Unanswered::Full => ServerError::not_sent(format!("too many requests wait for the connection to {place}")),
            Unanswered::Lost => {
                let reason = readable(&pipeline.end().unwrap_or_default());
                ServerError::unknown(format!("{reason} (at {place})"))
            }
        }
    }

    /// Records that the handshake was answered, and clears previous refusals.
    pub(super) fn greeted(&self) {
        self.has_been_up.store(true, Ordering::Release);
        let mut state = self.state.lock();
        (state.refused_since, state.trouble.kind) = (None, Kind::Passing);
        drop(state);
        if let Some(member) = &self.member {
            member.refuse(None);
        }
    }

    /// Adds the server's address to the error of a rejected login. Other errors stay unchanged.
    pub(super) fn named(&self, error: ServerError) -> ServerError {
        match error {
            ServerError::Unauthorized { message } => self.unauthorized(message),
            other => other,
        }
    }

    /// Returns why the connection is down. If it is up, returns why it was down before.
    pub(crate) fn trouble(&self) -> String {
        let of_login = self.login.as_ref().and_then(|login| login.trouble());
        of_login.unwrap_or_else(|| self.state.lock().trouble.message.clone())
    }

    pub(super) fn fail(&self, why: &str) {
        self.fail_by(Trouble::of(why));
    }

    pub(super) fn fail_by(&self, trouble: Trouble) {
        let why = trouble.message.clone();
        // The reason is set before the loss is published, because a caller that sees the loss may
        // read the reason.
        let mut state = self.state.lock();
        let is_refused = trouble.kind == Kind::Unauthorized;
        state.refused_since = is_refused.then(|| state.refused_since.unwrap_or_else(Instant::now));
        state.trouble = trouble;
        drop(state);
        if let Some(member) = &self.member {
            member.refuse(self.refusal());
            member.report(None);
        }
        let lost = self.epoch.send_replace(None).is_some();
        if lost {
            tracing::debug!(client = %self.client_name, why, "connection lost");
        }
    }

    /// Returns the reason that an error contains. The text that all errors of the same variant
    /// share is left out, and so is the node's address.
    pub(super) fn reason(&self, error: &ServerError) -> String {
        let reason = match error {
            ServerError::Refused { message, .. } | ServerError::Unauthorized { message } => message,
            ServerError::NotSent { reason } | ServerError::Unknown { reason } => &**reason,
            ServerError::ShuttingDown | ServerError::Decode { .. } => return error.to_string(),
        };
        reason.strip_suffix(&format!(" (at {})", self.target.place)).unwrap_or(reason).to_owned()
    }
}
