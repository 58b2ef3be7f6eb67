//! The life of a connection: set up, greeted, watched, probed when in doubt, set up again after a wait.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::future::poll_immediate;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::pipeline::Pipeline;
use super::words::info_field;
use super::{Connection, Handshake, LONGEST_WAIT, NodeRole, OTHER_PART, SHORTEST_WAIT};
use crate::connection::{ConnectionId, Reply, ServerClock};
use crate::error::ServerError;

/// How many connections this process has had. One count for all: where the user may not ask for the `run_id`, epochs of different
/// nodes differ by it alone.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// How a connection ended.
enum Ended {
    /// It is to be closed.
    Closing,
    /// It was lost, or given up, after it had answered its handshake.
    Lost,
    /// It never answered its handshake.
    Ungreeted,
}

impl Connection {
    pub(super) async fn keep(self: Arc<Self>) {
        let mut closing = self.closing.subscribe();
        let mut wait = SHORTEST_WAIT;
        loop {
            let Some(set_up) = self.until_closed(self.set_up(), &mut closing).await else { break };
            let ended = match set_up {
                Ok(connected) => {
                    *self.driving() = Some(connected.abort_handle());
                    *self.pipeline.lock().unwrap_or_else(|p| p.into_inner()) = connected.pipeline.clone();
                    // Beside each other, so that a provider that takes its time keeps nothing else waiting.
                    let ended = tokio::select! {
                        ended = self.watch(&connected.pipeline, &mut closing) => ended,
                        never = self.keep_logged_in() => match never {},
                    };
                    if let Ended::Closing = ended {
                        connected.quit().await;
                        break;
                    }
                    // It has gone, and all that it had, before there is another.
                    connected.abort().await;
                    // By RESP2 nothing may have been asked before the greeting. A server that hangs later
                    // has answered that.
                    if matches!(ended, Ended::Ungreeted) && self.trouble() != SILENT {
                        match self.until_closed(self.look_into(), &mut closing).await {
                            Some(Some(trouble)) => self.fail_by(trouble),
                            Some(None) => {}
                            None => break,
                        }
                    }
                    ended
                }
                Err(trouble) => {
                    self.fail_by(trouble);
                    Ended::Ungreeted
                }
            };
            if let Ended::Lost = ended {
                wait = SHORTEST_WAIT;
            }
            if self.sleep_or_close(spread(wait), &mut closing).await {
                break;
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        self.fail("the client is shut down");
    }

    pub(super) fn driving(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.driving.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Follows the life of a connection until it is lost, given up, or to be closed.
    async fn watch(&self, pipeline: &Pipeline, closing: &mut watch::Receiver<bool>) -> Ended {
        let mut wait = SHORTEST_WAIT;
        let mut ended = Ended::Ungreeted;
        // That was meant for the connection before.
        self.leaving.store(false, Ordering::Release);
        // What was asked on another connection is owed by nobody any more.
        self.silence.heard(self.clock.now());
        loop {
            let greeting = self.unless_silent(self.breaks_after(), self.handshake());
            let greeted = tokio::select! {
                biased;
                greeted = self.until_closed(greeting, closing) => greeted,
                lost = pipeline.lost() => { self.fail(&lost); return ended }
            };
            match greeted {
                None => return Ended::Closing,
                Some(Ok(epoch)) => {
                    self.greeted();
                    if let Some(seat) = &self.seat {
                        seat.tell(Some((&epoch, &self.history())));
                    }
                    self.epoch.send_replace(Some(epoch));
                    wait = SHORTEST_WAIT;
                    ended = Ended::Lost;
                }
                Some(Err(error)) => {
                    // The reason why the connection was lost says more than what that came to.
                    let lost = pipeline.end();
                    self.fail(lost.as_deref().unwrap_or(&self.reason(&error)));
                    // A connection that was lost is made anew. One on which the server refuses stays, and is greeted again.
                    if lost.is_some() || is_silent(&error) {
                        return ended;
                    }
                    let another = is_another_part(&error);
                    if self.sleep_or_close(if another { OTHER_PART } else { spread(wait) }, closing).await {
                        return Ended::Closing;
                    }
                    wait = (wait * 2).min(LONGEST_WAIT);
                    continue;
                }
            }
            loop {
                let (patience, mut is_silent_by_now) = (self.breaks_after(), false);
                tokio::select! {
                    biased;
                    _ = closing.wait_for(|closed| *closed) => return Ended::Closing,
                    lost = pipeline.lost() => { self.fail(&lost); return ended }
                    () = self.doubt.notified() => {}
                    // Half of what it may be silent for: it has the other half to say that it lives.
                    () = self.silence.lasts_for(&self.clock, patience / 2) => is_silent_by_now = true,
                    () = tokio::time::sleep(self.ping_interval) => {}
                }
                if self.leaving.swap(false, Ordering::AcqRel) {
                    return ended;
                }
                let probe = async {
                    match is_silent_by_now {
                        true => self.unless_silent(patience / 2, self.sign_of_life()).await,
                        false => self.unless_silent(patience, self.probe()).await,
                    }
                };
                let probed = tokio::select! {
                    biased;
                    probed = self.until_closed(probe, closing) => probed,
                    lost = pipeline.lost() => { self.fail(&lost); return ended }
                };
                match probed {
                    None => return Ended::Closing,
                    Some(Err(error)) if is_silent(&error) => {
                        self.fail(SILENT);
                        return ended;
                    }
                    // It lives; if it had been given up meanwhile, it is to be greeted again.
                    Some(Ok(()) | Err(ServerError::Refused { .. })) if self.is_up() => {}
                    Some(Ok(()) | Err(ServerError::Refused { .. })) => break,
                    Some(Err(error)) if is_another_part(&error) => {
                        self.fail(&self.reason(&error));
                        break;
                    }
                    // Too much is under way.
                    Some(Err(ServerError::NotSent { .. })) if pipeline.end().is_none() => {}
                    Some(_) => {
                        let lost = pipeline.end();
                        self.fail(lost.as_deref().unwrap_or("it was given up after an unexpected answer"));
                        return ended;
                    }
                }
            }
        }
    }

    /// Logs in anew wherever the password has changed. Where that does not work the connection stays as it is, and the next
    /// look tries again.
    async fn keep_logged_in(&self) -> Infallible {
        let Some(login) = &self.login else { return std::future::pending().await };
        loop {
            tokio::time::sleep(login.every()).await;
            if !self.is_up() {
                continue;
            }
            let followed = login.follow(|credentials| self.authenticate(credentials)).await;
            if followed.as_ref().is_err_and(is_subscribed_only) {
                // By RESP2 a connection with subscriptions takes no AUTH. Another connection replaces it,
                // once the server accepts the login: before that, messages would be lost.
                if self.is_login_accepted().await {
                    self.reconnect("the password has changed");
                }
            } else if let Err(error) = followed {
                tracing::warn!(client = %self.client_name, %error, "could not log in anew; the connection stays");
            }
        }
    }

    /// How long a server may say nothing though it was asked before its connection is given up: below the timeout, so that one that hangs
    /// costs the connection before it costs a second request.
    fn breaks_after(&self) -> Duration {
        self.timeout * 2 / 3
    }

    /// What the server is asked, unless it is silent for so long.
    async fn unless_silent<T>(
        &self,
        limit: Duration,
        asking: impl Future<Output = Result<T, ServerError>>,
    ) -> Result<T, ServerError> {
        let mut asking = pin!(asking);
        loop {
            let silent = self.silence.lasts_for(&self.clock, limit);
            tokio::select! {
                biased;
                answer = &mut asking => return answer,
                () = silent => {}
            }
            // A process that stood still meanwhile finds the answer and the end of that time together.
            if let Ok(answer) = tokio::time::timeout(MOMENT, asking.as_mut()).await {
                return answer;
            }
            if poll_immediate(self.silence.lasts_for(&self.clock, limit)).await.is_some() {
                return Err(ServerError::unknown(SILENT));
            }
        }
    }

    async fn handshake(&self) -> Result<ConnectionId, ServerError> {
        let named = self.send_static("CLIENT", vec!["SETNAME".into(), self.client_name.as_str().into()]).await;
        match (&self.greeting, named) {
            // It goes without a name.
            (Handshake::Nothing, Err(ServerError::Refused { .. })) => {}
            (_, named) => drop(tolerate_refusal(named)?),
        }
        let mut run_id = Arc::default();
        if let Handshake::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        if let Handshake::Life = self.greeting {
            self.send_static("PING", Vec::new()).await?;
        } else if !matches!(self.greeting, Handshake::Nothing) {
            let (server, replication) = tokio::join!(self.info("server"), self.info("replication"));
            run_id = info_field(&server?, "run_id").into();
            *self.history.lock().unwrap_or_else(|p| p.into_inner()) = info_field(&replication?, "master_replid").into();
        }
        if let Handshake::Data { time, .. } = &self.greeting {
            time.reset();
            self.ask_time(time).await?;
        }
        let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(ConnectionId { run_id, connection })
    }

    /// A section of INFO; empty where the user may not ask.
    async fn info(&self, section: &'static str) -> Result<String, ServerError> {
        let info = tolerate_refusal(self.send_static("INFO", vec![section.into()]).await)?;
        Ok(info.and_then(|reply| reply.into_typed().ok()).unwrap_or_default())
    }

    /// Whether it lives and still has its part.
    async fn probe(&self) -> Result<(), ServerError> {
        self.sign_of_life().await?;
        if let Handshake::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        Ok(())
    }

    /// A server of data is asked for its time, as what is known of its clock is worth less with each minute.
    async fn sign_of_life(&self) -> Result<(), ServerError> {
        match &self.greeting {
            Handshake::Data { time, .. } => self.ask_time(time).await,
            Handshake::Nothing | Handshake::Life | Handshake::Identity => {
                self.send_static("PING", Vec::new()).await.map(drop)
            }
        }
    }

    async fn ask_time(&self, time: &ServerClock) -> Result<(), ServerError> {
        let sent = self.clock.now();
        let (seconds, micros) = self.send_static("TIME", Vec::new()).await?.into_typed::<(u64, u64)>()?;
        time.observe_exchange(seconds * 1_000_000 + micros, sent, self.clock.now());
        Ok(())
    }

    /// Whether the server has the part that is expected of it. Who may not ask believes it.
    async fn check(&self, part: NodeRole) -> Result<(), ServerError> {
        if part == NodeRole::ClusterReplica {
            self.send_static("READONLY", Vec::new()).await?;
        }
        if matches!(part, NodeRole::Any | NodeRole::Sentinel) {
            return Ok(());
        }
        let Some(Reply::Array(role)) = tolerate_refusal(self.send_static("ROLE", Vec::new()).await)? else {
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

    async fn until_closed<F: Future>(&self, work: F, closing: &mut watch::Receiver<bool>) -> Option<F::Output> {
        tokio::select! {
            done = work => Some(done),
            _ = closing.wait_for(|closed| *closed) => None,
        }
    }

    async fn sleep_or_close(&self, wait: Duration, closing: &mut watch::Receiver<bool>) -> bool {
        self.until_closed(tokio::time::sleep(wait), closing).await.is_none()
    }
}

/// Half of a wait up to all of it: clients that lost a server together do not come back together.
fn spread(longest: Duration) -> Duration {
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// How long is waited for an answer that may have come while the process stood still: 10 ms.
const MOMENT: Duration = Duration::from_millis(10);

/// Whether a server says that a connection with subscriptions takes no other commands, as it does with RESP2.
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
