//! A connection of its own to a node, opened when it is first needed, for what must neither stand behind others nor have others between
//! its parts: what goes between MULTI and EXEC, and SCRIPT KILL.
//!
//! # Why all or none
//!
//! MULTI and the commands leave back to back, as one piece, so all of them go over one connection or are lost with it. EXEC follows when
//! each of them was seen to be queued, and on any other connection it is refused. What is queued and gets no EXEC is forgotten by the server.
//! That MULTI is permitted is asked once for each connection: behind one that is refused, the commands would be carried out.
//!
//! What else is sent on the connection meanwhile, signs of life, is queued behind the commands, so its answers come behind theirs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fred::prelude::Value;
use tokio::task::JoinHandle;

use super::Reply;
use super::link::{Greeting, Link, Named};
use super::way::Way;
use crate::clock::{Clock, Instant};
use crate::config::Settings;
use crate::error::{Code, ServerError};

/// A command as it is sent.
pub(super) type Words = (Named, Vec<Value>);

/// The connection of a node, and how it is opened.
pub(super) struct Aside {
    way: Way,
    settings: Settings,
    clock: Clock,
    /// `None` before it is needed; without a lane once closed.
    open: Mutex<Option<Open>>,
}

struct Open {
    lane: Option<Arc<Lane>>,
    watching: JoinHandle<()>,
}

struct Lane {
    link: Arc<Link>,
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The number of the connection on which MULTI was seen to be permitted.
    permitted: AtomicU64,
}

impl Aside {
    /// Opens nothing yet.
    pub(super) fn new(way: Way, settings: &Settings, clock: Clock) -> Self {
        Aside { way, settings: settings.clone(), clock, open: Mutex::default() }
    }

    /// Sends one command, when it is its turn.
    pub(super) async fn send(&self, (name, args): Words) -> Result<Reply, ServerError> {
        let (lane, _, _turn) = self.turn().await?;
        lane.link.send(name, args).await
    }

    /// Has all of `commands` carried out, or none.
    ///
    /// # Cancel safety
    ///
    /// Dropped while others have their turn, nothing is sent; afterwards it goes on by itself.
    pub(super) async fn together(&self, asking: bool, commands: Vec<Words>) -> Result<Reply, ServerError> {
        let (lane, connection, turn) = self.turn().await?;
        let work = tokio::spawn(async move {
            let answer = lane.carry_out(connection, asking, commands).await;
            drop(turn);
            answer
        });
        work.await.unwrap_or_else(|_| Err(ServerError::unknown("the task that had it carried out ended")))
    }

    /// Waits for the turn and for the connection, as long as one request has; tells the number of the connection.
    async fn turn(&self) -> Result<(Arc<Lane>, u64, tokio::sync::OwnedMutexGuard<()>), ServerError> {
        let by = self.clock.now() + self.settings.timeout;
        let lane = self.lane()?;
        let turn = Arc::clone(&lane.turn).lock_owned();
        let turn =
            self.in_time(by, turn).await.ok_or_else(|| ServerError::not_sent("others had their turn for too long"))?;
        let mut epoch = lane.link.epoch();
        let up = async { epoch.wait_for(Option::is_some).await.ok().and_then(|epoch| epoch.clone()) };
        let epoch = self.in_time(by, up).await.flatten().ok_or_else(|| lane.link.down())?;
        Ok((lane, epoch.connection, turn))
    }

    async fn in_time<T>(&self, by: Instant, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.clock.sleep_until(by) => None,
        }
    }

    fn lane(&self) -> Result<Arc<Lane>, ServerError> {
        let mut open = self.open.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(open) = &*open {
            return open.lane.clone().ok_or_else(|| ServerError::not_sent("the client is shut down"));
        }
        let name = format!("{}:aside", self.settings.client_name);
        let (link, watching) =
            Link::open(&self.way, &self.settings, self.clock.clone(), name, Greeting::Nothing, None)?;
        let lane = Arc::new(Lane { link, turn: Arc::default(), permitted: AtomicU64::new(0) });
        *open = Some(Open { lane: Some(Arc::clone(&lane)), watching });
        Ok(lane)
    }

    /// Has the connection end.
    pub(super) fn stop(&self) {
        let open = self.open.lock().unwrap_or_else(|p| p.into_inner());
        open.iter().filter_map(|open| open.lane.as_ref()).for_each(|lane| lane.link.close());
    }

    /// Ends the connection; none is opened any more.
    pub(super) async fn close(&self) {
        self.stop();
        let closed = Open { lane: None, watching: tokio::spawn(std::future::ready(())) };
        let open = self.open.lock().unwrap_or_else(|p| p.into_inner()).replace(closed);
        if let Some(open) = open {
            let _ = open.watching.await;
        }
    }
}

impl Lane {
    async fn carry_out(&self, connection: u64, asking: bool, commands: Vec<Words>) -> Result<Reply, ServerError> {
        let link = &self.link;
        if self.permitted.load(Ordering::Relaxed) != connection {
            link.send_static("MULTI", Vec::new()).await?;
            self.forget().await;
            self.permitted.store(connection, Ordering::Relaxed);
        }
        let names: Vec<_> = commands.iter().map(|(name, _)| name.clone()).collect();
        let asked = asking.then(|| (Named::Known("ASKING"), Vec::new()));
        let multi = (Named::Known("MULTI"), Vec::new());
        let mut queued =
            link.send_together(asked.into_iter().chain([multi]).chain(commands).collect()).await.into_iter();
        let began: Vec<_> = queued.by_ref().take(1 + usize::from(asking)).collect();
        let queued: Vec<_> = queued.collect();
        if let Some(Err(error)) = began.iter().find(|answer| answer.is_err()) {
            link.renew().await;
            // Behind a MULTI that was refused they stood alone.
            let alone = error.code().is_some()
                && queued.iter().any(|answer| !matches!(answer, Err(ServerError::Refused { .. })));
            return Err(match alone {
                true => ServerError::unknown(format!(
                    "what was to be one step may have been carried out one by one: {error}"
                )),
                false => nothing(error),
            });
        }
        if let Some(at) = queued.iter().position(|answer| !matches!(answer, Ok(Reply::Nil))) {
            self.forget().await;
            return Err(match &queued[at] {
                Err(ServerError::Refused { code, message }) if !code.is_passing() => {
                    let (code, nth, of) = (*code, at + 1, names.len());
                    let message = format!("{message} (`{}`, command {nth} of {of}: none was carried out)", names[at]);
                    ServerError::Refused { code, message }
                }
                Err(error) => nothing(error),
                Ok(_) => ServerError::not_sent("a command was not queued behind MULTI"),
            });
        }
        match link.send_static("EXEC", Vec::new()).await {
            Ok(Reply::Array(mut answers)) if answers.len() >= names.len() => {
                if answers.len() > names.len() {
                    // What a handshake has queued was not answered as it expects.
                    link.renew().await;
                    answers.truncate(names.len());
                }
                Ok(Reply::Array(answers))
            }
            Ok(other) => {
                link.renew().await;
                Err(ServerError::Decode { expected: "a list of answers to what was queued", got: format!("{other:?}") })
            }
            Err(ServerError::Refused { code: Code::Other, message }) if message.contains("without MULTI") => {
                Err(ServerError::not_sent("the connection was replaced before EXEC"))
            }
            Err(error) => {
                if error.is_unknown() {
                    link.renew().await;
                }
                Err(error)
            }
        }
    }

    /// Has the server forget what is queued: by a word, or else by another connection.
    async fn forget(&self) {
        if self.link.send_static("DISCARD", Vec::new()).await.is_err() {
            self.link.renew().await;
        }
    }
}

/// What is true when EXEC was not sent: whatever became of the rest, nothing was carried out.
fn nothing(error: &ServerError) -> ServerError {
    match error {
        ServerError::Refused { .. } => error.clone(),
        other => ServerError::not_sent(format!("nothing was carried out, as EXEC was not sent: {other}")),
    }
}
