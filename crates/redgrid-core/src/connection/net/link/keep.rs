//! Supervision of a connection: set-up, handshake, monitoring, probes, and reconnects with
//! back-off.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::poll_immediate;
use tokio::time::sleep;

use super::pipeline::Pipeline;
use super::server_text::info_field;
use super::{Connection, Handshake, LONGEST_WAIT, NodeRole, OTHER_PART, SHORTEST_WAIT, wire};
use crate::connection::{ConnectionId, Reply, ServerClock};
use crate::error::ServerError;

/// Number of connections that this process has had.
///
/// The counter is shared by all nodes. If the user may not read the `run_id`, connection ids of
/// different nodes differ only by this number.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

impl Connection {
    /// Keeps the connection up until it is to be closed.
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
                    *self.pipeline.lock().unwrap_or_else(|p| p.into_inner()) = pipeline.clone();
                    tokio::select! {
                        biased;
                        () = self.supervise(&pipeline, &mut was_up) => {}
                        lost = pipeline.lost() => self.fail(&lost),
                        // Concurrent, so that a slow credentials provider delays nothing else.
                        never = self.keep_logged_in() => match never {},
                    }
                    // The old connection and its requests end before a new one is set up.
                    pipeline.abort();
                    pipeline.lost().await;
                    // With RESP2 the handshake may be the first exchange with the listener. A
                    // server that hangs later has answered it.
                    if !was_up
                        && self.trouble() != SILENT
                        && let Some(trouble) = self.look_into().await
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
        // The flag was meant for the previous connection.
        self.leaving.store(false, Ordering::Release);
        // Requests of a previous connection are no longer outstanding.
        self.silence.heard(self.target.clock.now());
        loop {
            match self.unless_silent(self.breaks_after(), self.handshake()).await {
                Ok(epoch) => {
                    self.greeted();
                    if let Some(seat) = &self.seat {
                        seat.tell(Some((&epoch, &self.history())));
                    }
                    self.epoch.send_replace(Some(epoch));
                    wait = SHORTEST_WAIT;
                    *was_up = true;
                }
                Err(error) => {
                    // The reason for the loss of the connection is more specific than the resulting
                    // error.
                    let lost = pipeline.end();
                    self.fail(lost.as_deref().unwrap_or(&self.reason(&error)));
                    // A lost connection is replaced. If the server refuses, the connection stays
                    // and the handshake is repeated.
                    if lost.is_some() || is_silent(&error) {
                        return;
                    }
                    sleep(if is_another_part(&error) { OTHER_PART } else { spread(wait) }).await;
                    wait = (wait * 2).min(LONGEST_WAIT);
                    continue;
                }
            }
            loop {
                let (patience, mut is_silent_by_now) = (self.breaks_after(), false);
                tokio::select! {
                    biased;
                    () = self.doubt.notified() => {}
                    // Half of the permitted silence; the probe has the other half to get an answer.
                    () = self.silence.lasts_for(&self.target.clock, patience / 2) => is_silent_by_now = true,
                    () = sleep(self.target.settings.ping_interval) => {}
                }
                if self.leaving.swap(false, Ordering::AcqRel) {
                    return;
                }
                let probed = match is_silent_by_now {
                    true => self.unless_silent(patience / 2, self.sign_of_life()).await,
                    false => self.unless_silent(patience, self.probe()).await,
                };
                match probed {
                    Err(error) if is_silent(&error) => return self.fail(SILENT),
                    // The server is alive. A connection that was given up meanwhile repeats its
                    // handshake.
                    Ok(()) | Err(ServerError::Refused { .. }) if self.is_up() => {}
                    Ok(()) | Err(ServerError::Refused { .. }) => break,
                    Err(error) if is_another_part(&error) => {
                        self.fail(&self.reason(&error));
                        break;
                    }
                    // Too many requests are in flight.
                    Err(ServerError::NotSent { .. }) if pipeline.end().is_none() => {}
                    Err(_) => {
                        let lost = pipeline.end();
                        return self.fail(lost.as_deref().unwrap_or("it was given up after an unexpected answer"));
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
            let followed = login.follow(|credentials| self.authenticate(credentials)).await;
            if followed.as_ref().is_err_and(is_subscribed_only) {
                // With RESP2 a connection with subscriptions accepts no AUTH. It is replaced once
                // the server accepts the new login; earlier, messages would be lost.
                if self.is_login_accepted().await {
                    self.reconnect("the password has changed");
                }
            } else if let Err(error) = followed {
                tracing::warn!(client = %self.client_name, %error, "could not log in anew; the connection stays");
            }
        }
    }

    /// How long a server may be silent with a request outstanding before the connection is given
    /// up.
    ///
    /// The limit is below the timeout, so that a hanging server costs the connection before it
    /// costs a second request.
    fn breaks_after(&self) -> Duration {
        self.timeout() * 2 / 3
    }

    /// Awaits a reply, unless the server is silent for longer than `limit`.
    async fn unless_silent<T>(
        &self,
        limit: Duration,
        asking: impl Future<Output = Result<T, ServerError>>,
    ) -> Result<T, ServerError> {
        let mut asking = pin!(asking);
        loop {
            let silent = self.silence.lasts_for(&self.target.clock, limit);
            tokio::select! {
                biased;
                answer = &mut asking => return answer,
                () = silent => {}
            }
            // A process that was suspended finds the reply and the expired limit at the same time.
            if let Ok(answer) = tokio::time::timeout(MOMENT, asking.as_mut()).await {
                return answer;
            }
            if poll_immediate(self.silence.lasts_for(&self.target.clock, limit)).await.is_some() {
                return Err(ServerError::unknown(SILENT));
            }
        }
    }

    async fn handshake(&self) -> Result<ConnectionId, ServerError> {
        let named = self.send(vec!["CLIENT".into(), "SETNAME".into(), self.client_name.clone().into()]).await;
        match (&self.greeting, named) {
            // The connection stays unnamed.
            (Handshake::Nothing, Err(ServerError::Refused { .. })) => {}
            (_, named) => drop(tolerate_refusal(named)?),
        }
        let mut run_id = Arc::default();
        if let Handshake::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        if let Handshake::Life = self.greeting {
            self.send(wire(["PING"])).await?;
        } else if !matches!(self.greeting, Handshake::Nothing) {
            let (server, replication) = tokio::join!(self.info("server"), self.info("replication"));
            run_id = info_field(&server?, "run_id").into();
            self.state().history = info_field(&replication?, "master_replid").into();
        }
        if let Handshake::Data { time, .. } = &self.greeting {
            time.reset();
            self.ask_time(time).await?;
        }
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(ConnectionId { run_id, connection })
    }

    /// Reads a section of INFO; empty if the user may not read it.
    async fn info(&self, section: &'static str) -> Result<String, ServerError> {
        let info = tolerate_refusal(self.send(wire(["INFO", section])).await)?;
        Ok(info.and_then(|reply| reply.into_typed().ok()).unwrap_or_default())
    }

    /// Checks that the server is alive and still has its role.
    async fn probe(&self) -> Result<(), ServerError> {
        self.sign_of_life().await?;
        if let Handshake::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        Ok(())
    }

    /// Checks that the server is alive.
    ///
    /// A data server is sent TIME, as the estimate of its clock loses accuracy with each minute.
    async fn sign_of_life(&self) -> Result<(), ServerError> {
        match &self.greeting {
            Handshake::Data { time, .. } => self.ask_time(time).await,
            Handshake::Nothing | Handshake::Life | Handshake::Identity => self.send(wire(["PING"])).await.map(drop),
        }
    }

    async fn ask_time(&self, time: &ServerClock) -> Result<(), ServerError> {
        let sent = self.target.clock.now();
        let (seconds, micros) = self.send(wire(["TIME"])).await?.into_typed::<(u64, u64)>()?;
        time.observe_exchange(seconds * 1_000_000 + micros, sent, self.target.clock.now());
        Ok(())
    }

    /// Checks that the server has the expected role. Without permission for ROLE the check passes.
    async fn check(&self, part: NodeRole) -> Result<(), ServerError> {
        if part == NodeRole::ClusterReplica {
            self.send(wire(["READONLY"])).await?;
        }
        if matches!(part, NodeRole::Any | NodeRole::Sentinel) {
            return Ok(());
        }
        let Some(Reply::Array(role)) = tolerate_refusal(self.send(wire(["ROLE"])).await)? else {
            return Ok(());
        };
        let word = |at: usize| match role.get(at) {
            Some(Reply::Bytes(word)) => String::from_utf8_lossy(word).into_owned(),
            _ => String::new(),
        };
        match (part, word(0).as_str(), word(3).as_str()) {
            (NodeRole::Primary, "master", _) | (NodeRole::Replica | NodeRole::ClusterReplica, "slave", "connected") => {
                Ok(())
            }
            (NodeRole::Primary, role, _) => {
                Err(ServerError::not_sent(format!("{NOT_ITS_PART} a primary, it is a {role}")))
            }
            (_, role, state) => Err(ServerError::not_sent(format!(
                "{NOT_ITS_PART} a replica in touch with its primary: {role} {state}"
            ))),
        }
    }
}

/// Returns a random wait between half of `longest` and all of it.
///
/// Clients that lost a server at the same time do not reconnect at the same time.
fn spread(longest: Duration) -> Duration {
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// How long to wait for a reply that may have arrived while the process was suspended: 10 ms.
const MOMENT: Duration = Duration::from_millis(10);

/// Returns whether the server rejects other commands on a connection with subscriptions, as with
/// RESP2.
fn is_subscribed_only(error: &ServerError) -> bool {
    matches!(error, ServerError::Refused { message, .. } if message.contains("allowed in this context"))
}

const SILENT: &str = "the server says nothing";

fn is_silent(error: &ServerError) -> bool {
    matches!(error, ServerError::Unknown { reason } if reason == SILENT)
}

const NOT_ITS_PART: &str = "the server is not";

fn is_another_part(error: &ServerError) -> bool {
    matches!(error, ServerError::NotSent { reason } if reason.starts_with(NOT_ITS_PART))
}

fn tolerate_refusal(answer: Result<Reply, ServerError>) -> Result<Option<Reply>, ServerError> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(ServerError::Refused { code, .. }) if !code.is_passing() => Ok(None),
        Err(error) => Err(error),
    }
}
