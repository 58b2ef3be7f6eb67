//! Supervision of a connection: set-up, handshake, monitoring, probes, and reconnects with
//! back-off.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::poll_immediate;
use tokio::time::sleep;

use super::handshake::is_another_part;
use super::pipeline::Pipeline;
use super::{Connection, LONGEST_WAIT};
use crate::error::ServerError;

/// Back-off before the second attempt to connect: 25 to 50 ms. It doubles with each failure.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// Delay before a server that had an unexpected role is checked again: 100 ms. The delay is short,
/// because a promotion takes little time.
const OTHER_PART: Duration = Duration::from_millis(100);

impl Connection {
    pub(super) async fn keep(self: Arc<Self>) {
        tokio::select! {
            biased;
            () = self.closing() => {}
            never = self.keep_up() => match never {},
        }
        self.pipeline().quit().await;
        self.fail("the client is shut down");
    }

    async fn keep_up(&self) -> Infallible {
        let mut wait = SHORTEST_WAIT;
        loop {
            let mut was_up = false;
            match self.set_up().await {
                Ok(connected) => {
                    let pipeline = connected.into_pipeline();
                    *self.pipeline.lock() = pipeline.clone();
                    tokio::select! {
                        biased;
                        () = self.supervise(&pipeline, &mut was_up) => {}
                        lost = pipeline.lost() => self.fail(&lost),
                        // The login runs concurrently, so that a slow credentials provider delays
                        // nothing else.
                        never = self.keep_logged_in() => match never {},
                    }
                    // A new connection is set up only after the old connection and its requests
                    // have ended.
                    pipeline.abort();
                    pipeline.lost().await;
                    // With RESP2 the set-up can succeed without any exchange, so its success does
                    // not show that a server listens at the address. So the client checks what
                    // listens there. If the connection was silent, the check is left out: a server
                    // that hangs would not answer the check either.
                    if !was_up
                        && self.trouble() != SILENT
                        && let Some(trouble) = self.diagnose_listener().await
                    {
                        self.fail_by(trouble);
                    }
                }
                Err(trouble) => self.fail_by(trouble),
            }
            if was_up {
                wait = SHORTEST_WAIT;
            }
            sleep(spread(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Monitors a connection until it is given up. Sets `was_up` once its handshake was answered.
    async fn supervise(&self, pipeline: &Pipeline, was_up: &mut bool) {
        let mut wait = SHORTEST_WAIT;
        // A flag that was set for the previous connection does not concern this one.
        self.leaving.store(false, Ordering::Release);
        // Requests of the previous connection are not outstanding on this one.
        self.silence.received(self.target.clock.now());
        loop {
            match self.unless_silent(self.breaks_after(), self.handshake()).await {
                Ok(epoch) => {
                    self.greeted();
                    if let Some(member) = &self.member {
                        member.report(Some((&epoch, &self.history())));
                    }
                    self.epoch.send_replace(Some(epoch));
                    wait = SHORTEST_WAIT;
                    *was_up = true;
                }
                Err(error) => {
                    // If the connection was lost, the reason for the loss is more specific than the
                    // error of the handshake.
                    let lost = pipeline.end();
                    self.fail(lost.as_deref().unwrap_or(&self.reason(&error)));
                    // A lost or silent connection is replaced. If the server refuses the handshake,
                    // the connection stays and the handshake is repeated.
                    if lost.is_some() || is_silent(&error) {
                        return;
                    }
                    sleep(if is_another_part(&error) { OTHER_PART } else { spread(wait) }).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    continue;
                }
            }
            loop {
                let (limit, mut is_half_over) = (self.breaks_after(), false);
                tokio::select! {
                    biased;
                    () = self.doubt.notified() => {}
                    // The server has been silent for half of the permitted time. It must answer the
                    // probe within the other half.
                    () = self.silence.lasts_for(&self.target.clock, limit / 2) => is_half_over = true,
                    () = sleep(self.target.settings.ping_interval) => {}
                }
                if self.leaving.swap(false, Ordering::AcqRel) {
                    return;
                }
                let probed = match is_half_over {
                    true => self.unless_silent(limit / 2, self.sign_of_life()).await,
                    false => self.unless_silent(limit, self.probe()).await,
                };
                match probed {
                    Err(error) if is_silent(&error) => return self.fail(SILENT),
                    // The server is alive. If the connection was reported as lost meanwhile, the
                    // handshake is repeated.
                    Ok(()) | Err(ServerError::Refused { .. }) if self.is_up() => {}
                    Ok(()) | Err(ServerError::Refused { .. }) => break,
                    Err(error) if is_another_part(&error) => {
                        self.fail(&self.reason(&error));
                        break;
                    }
                    // The probe was not sent, because too many requests are in flight.
                    Err(ServerError::NotSent { .. }) if pipeline.end().is_none() => {}
                    Err(_) => {
                        let lost = pipeline.end();
                        return self.fail(lost.as_deref().unwrap_or("it was closed after an unexpected reply"));
                    }
                }
            }
        }
    }

    /// Logs in again whenever the password has changed.
    ///
    /// If that fails, the connection stays as it is and the next check tries again.
    async fn keep_logged_in(&self) -> Infallible {
        let Some(login) = &self.login else { return std::future::pending().await };
        loop {
            sleep(login.every()).await;
            if !self.is_up() {
                continue;
            }
            let followed = login.follow(self).await;
            if followed.as_ref().is_err_and(is_subscribed_only) {
                // With RESP2 a connection with subscriptions accepts no AUTH. So the connection is
                // replaced, but only once the server accepts the new login. Before that, a new
                // connection could not log in, and messages would be lost.
                if self.is_login_accepted().await {
                    self.reconnect("the password has changed");
                }
            } else if let Err(error) = followed {
                tracing::warn!(client = %self.client_name, %error, "could not log in again; the connection stays open");
            }
        }
    }

    /// Returns how long a server can be silent while a request is outstanding, before the
    /// connection is given up.
    ///
    /// The limit is below the response timeout. So the connection to a hanging server is replaced
    /// before an unanswered request is sent again.
    fn breaks_after(&self) -> Duration {
        self.timeout() * 2 / 3
    }

    /// Awaits a reply. Returns an error once the server has been silent for `limit`.
    async fn unless_silent<T>(
        &self,
        limit: Duration,
        response: impl Future<Output = Result<T, ServerError>>,
    ) -> Result<T, ServerError> {
        let mut response = pin!(response);
        loop {
            let silence = self.silence.lasts_for(&self.target.clock, limit);
            tokio::select! {
                biased;
                answer = &mut response => return answer,
                () = silence => {}
            }
            // If the process was suspended, the reply may have arrived, although the limit has
            // expired. So the reply is awaited for another moment.
            if let Ok(answer) = tokio::time::timeout(MOMENT, response.as_mut()).await {
                return answer;
            }
            if poll_immediate(self.silence.lasts_for(&self.target.clock, limit)).await.is_some() {
                return Err(ServerError::unknown(SILENT));
            }
        }
    }
}

/// Returns a random wait between half of `longest` and all of it.
///
/// So clients that lost a server at the same time do not reconnect at the same time.
fn spread(longest: Duration) -> Duration {
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// How long to wait for a reply that may have arrived while the process was suspended: 10 ms.
const MOMENT: Duration = Duration::from_millis(10);

/// Returns whether the command was refused because the connection has subscriptions. Only with
/// RESP2 does a server refuse commands for this reason.
fn is_subscribed_only(error: &ServerError) -> bool {
    matches!(error, ServerError::Refused { message, .. } if message.contains("allowed in this context"))
}

const SILENT: &str = "the server sends nothing";

fn is_silent(error: &ServerError) -> bool {
    matches!(error, ServerError::Unknown { reason } if reason == SILENT)
}
