//! A tap from when the server has confirmed all of its channels.

use std::future::poll_fn;
use std::sync::Arc;

use super::tap::{Deaf, Tap};
use crate::clock::Instant;
use crate::connection::Client;
use crate::error::ServerError;

impl Client {
    /// A tap of which so many messages are kept for a slow reader, and its `places`, begun when all of its channels are in force.
    ///
    /// # Errors
    ///
    /// [`ServerError`] where the server refuses one, nobody confirms them within `timeout × (retries + 1)`, or the client ends.
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
        let deaf = |deaf| if let Deaf::Over = deaf { self.ended() } else { deaf.error() };
        self.in_force(&tap, until).await.map_err(deaf)?;
        tap.begin();
        Ok((tap, places))
    }

    /// Completes when all channels of a tap are in force; at once when it is known that they will not be.
    pub(crate) async fn in_force(&self, tap: &Tap, until: Instant) -> Result<(), Deaf> {
        tokio::select! {
            biased;
            in_force = poll_fn(|context| tap.poll_in_force(context)) => in_force,
            () = self.closing() => Err(Deaf::Over),
            () = self.clock().sleep_until(until) => Err(Deaf::Late),
        }
    }
}

impl Deaf {
    /// As what it is told.
    pub(crate) fn error(self) -> ServerError {
        match self {
            Deaf::Denied(why) => why,
            Deaf::Over => ServerError::ShuttingDown,
            Deaf::Late => ServerError::not_sent("the subscription was not confirmed in time"),
        }
    }
}
