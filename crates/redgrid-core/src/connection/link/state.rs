//! Why a connection is not up, and whether waiting helps.

use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::Connection;
use super::pipeline::{Pipeline, Unanswered};
use crate::connection::trouble::{Kind, Trouble, readable};
use crate::connection::unauthorized;
use crate::error::ServerError;

impl Connection {
    /// The error of a request that is not sent because there is no connection.
    pub(in crate::connection) fn down(&self) -> ServerError {
        self.refusal().unwrap_or_else(|| self.unconnected())
    }

    fn unconnected(&self) -> ServerError {
        ServerError::not_sent(format!("no connection to {}: {}", self.place, self.trouble()))
    }

    /// Why waiting does not help: the server refuses this client, or the target is wrong. Where a
    /// provider has the password, a refusal counts when it has lasted for a while; a wrong target
    /// counts as long as there has never been a connection.
    fn refusal(&self) -> Option<ServerError> {
        let kind = self.present_trouble().kind;
        match kind {
            Kind::Passing => None,
            Kind::Unauthorized => {
                let since = *self.refused_since.lock().unwrap_or_else(|p| p.into_inner());
                let grace = unauthorized::grace(self.login.is_some(), self.timeout);
                let is_over = since.is_some_and(|since| since.elapsed() >= grace);
                is_over.then(|| self.unauthorized(self.trouble()))
            }
            Kind::Lasting => (!self.has_been_up.load(Ordering::Acquire)).then(|| self.unconnected()),
        }
    }

    /// The words of the server come first: they say of which kind the refusal is.
    fn unauthorized(&self, words: String) -> ServerError {
        ServerError::Unauthorized { message: format!("{words} (at {})", self.place) }
    }

    /// The error of a request that has no answer.
    pub(super) fn unanswered(&self, pipeline: &Pipeline, why: Unanswered) -> ServerError {
        let place = &self.place;
        match why {
            Unanswered::NotWritten => ServerError::not_sent(format!("no connection to {place}")),
            Unanswered::Full => ServerError::not_sent(format!("too many requests wait for the connection to {place}")),
            Unanswered::Lost => {
                let reason = readable(&pipeline.end().unwrap_or_default());
                ServerError::unknown(format!("{reason} (at {place})"))
            }
        }
    }

    /// The connection has answered its handshake: nothing stands in the way any more.
    pub(super) fn greeted(&self) {
        self.has_been_up.store(true, Ordering::Release);
        *self.refused_since.lock().unwrap_or_else(|p| p.into_inner()) = None;
        self.trouble.lock().unwrap_or_else(|p| p.into_inner()).kind = Kind::Passing;
        if let Some(seat) = &self.seat {
            seat.refuse(None);
        }
    }

    /// A refusal of the login on a connection that is up, with the node.
    pub(super) fn named(&self, error: ServerError) -> ServerError {
        match error {
            ServerError::Unauthorized { message } => self.unauthorized(message),
            other => other,
        }
    }

    /// Why there is no connection, or was none before this one.
    pub(in crate::connection) fn trouble(&self) -> String {
        let of_login = self.login.as_ref().and_then(|login| login.trouble());
        of_login.unwrap_or_else(|| self.present_trouble().words)
    }

    fn present_trouble(&self) -> Trouble {
        self.trouble.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    pub(super) fn fail(&self, why: &str) {
        self.fail_by(Trouble::of(why));
    }

    pub(super) fn fail_by(&self, trouble: Trouble) {
        let why = trouble.words.clone();
        {
            let mut since = self.refused_since.lock().unwrap_or_else(|p| p.into_inner());
            let is_refused = trouble.kind == Kind::Unauthorized;
            *since = is_refused.then(|| since.unwrap_or_else(Instant::now));
        }
        // The reason first: a caller that sees that the connection is lost may ask for it.
        *self.trouble.lock().unwrap_or_else(|p| p.into_inner()) = trouble;
        if let Some(seat) = &self.seat {
            seat.refuse(self.refusal());
            seat.tell(None);
        }
        let lost = self.epoch.send_replace(None).is_some();
        if lost {
            tracing::debug!(client = %self.client_name, why, "connection lost");
        }
    }

    /// The reason of an error alone: not that it failed, which is said anyway, nor the node.
    pub(super) fn reason(&self, error: &ServerError) -> String {
        let reason = match error {
            ServerError::Refused { message, .. } | ServerError::Unauthorized { message } => message,
            ServerError::NotSent { reason } | ServerError::Unknown { reason } => &**reason,
            ServerError::ShuttingDown | ServerError::Decode { .. } => return error.to_string(),
        };
        reason.strip_suffix(&format!(" (at {})", self.place)).unwrap_or(reason).to_owned()
    }
}
