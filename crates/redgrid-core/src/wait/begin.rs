//! A tap from when the server has confirmed all of its channels.

use std::future::poll_fn;
use std::sync::Arc;

use super::tap::{Deaf, Tap};
use crate::clock::Instant;
use crate::connection::{Client, refused};
use crate::error::ServerError;

impl Client {
    /// A tap of which so many messages are kept for a slow reader, and its `places`, begun when all of its channels are in force.
    ///
    /// # Errors
    ///
    /// [`ServerError`] where the server refuses one or this client, no server confirms them within
    /// `response_timeout × (retries + 1)`, or the client ends.
    pub(super) async fn tapped<P>(
        &self,
        kept: usize,
        places: impl FnOnce(&Arc<Tap>) -> P,
    ) -> Result<(Arc<Tap>, P), ServerError> {
        if self.is_shut_down() {
            return Err(self.ended());
        }
        let until = self.clock().now() + self.patience();
        let tap = Arc::new(Tap::new(kept));
        let places = places(&tap);
        let deaf = |deaf| match deaf {
            Deaf::Over => self.ended(),
            Deaf::Late => self.unconfirmed(),
            other => other.error(),
        };
        self.in_force(&tap, until).await.map_err(deaf)?;
        tap.begin();
        Ok((tap, places))
    }

    /// The error of a subscription that was not confirmed in time: what stands in the way, where that
    /// is known.
    fn unconfirmed(&self) -> ServerError {
        let primaries = self.core().topology.primaries();
        let unreached = primaries.iter().find(|server| server.current_connection_id().is_none());
        unreached.map_or_else(|| Deaf::Late.error(), |server| server.unreached())
    }

    /// Completes when all channels of a tap are in force; at once when it is known that they will not
    /// be, or that waiting does not help.
    pub(crate) async fn in_force(&self, tap: &Tap, until: Instant) -> Result<(), Deaf> {
        tokio::select! {
            biased;
            in_force = poll_fn(|context| tap.poll_in_force(context)) => in_force,
            () = self.closing() => Err(Deaf::Over),
            refused = refused(self.core()) => Err(Deaf::Refused(refused)),
            () = self.clock().sleep_until(until) => Err(Deaf::Late),
        }
    }
}

impl Deaf {
    /// As what it is told.
    pub(crate) fn error(self) -> ServerError {
        match self {
            Deaf::Denied(why) | Deaf::Refused(why) => why,
            Deaf::Over => ServerError::ShuttingDown,
            Deaf::Late => ServerError::not_sent("the subscription was not confirmed in time"),
        }
    }
}
