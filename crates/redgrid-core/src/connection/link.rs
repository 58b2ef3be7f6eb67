//! One connection to one node, watched: told when it is up, verified when in doubt, set up again when it ends.
//!
//! [`Link::epoch`] is `Some` while the connection has answered its handshake.

mod diagnose;
mod keep;
mod pipeline;
mod protocol;
mod resp;
mod set_up;
mod silence;
mod state;
mod words;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fred::prelude::Value;
use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};

use self::pipeline::{Answer, Expects, Pipeline, Unanswered};
use self::protocol::without_arguments;
use self::set_up::login_words;
use self::silence::{Asked, Silence};
use self::words::is_read_only;
pub(super) use self::words::{info_field, wants_login};
use super::endpoint::Target;
use super::login::Login;
use super::pool::PoolMember;
use super::trouble::{LATE_ANSWER, Trouble};
use super::{ConnectionId, Push, Reply, ServerClock};
use crate::clock::Clock;
use crate::config::{Credentials, Protocol, Settings};
use crate::error::ServerError;

/// The first wait before another attempt to connect: 25 to 50 ms. It doubles with each that fails.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// The longest: 1 to 2 s.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How long the end of a connection may take before it is simply dropped: 100 ms. So much later those are told who wait for an
/// answer of a primary that hangs and was replaced, and turn to the new one.
const QUIT: Duration = Duration::from_millis(100);

/// How long a server may owe an answer and say nothing before it is doubted: 100 ms. Nearby one that lives answers within a
/// millisecond, and a doubt is a look at the topology.
const SILENT: Duration = Duration::from_millis(100);

/// The same where that is far away: 1 s at the most, so that one that has been slow for long is doubted at all.
const LONGEST_SILENT: Duration = Duration::from_secs(1);

/// How many round trips that is at the least: 4. A packet that was lost is sent again within three.
const ROUND_TRIPS: u32 = 4;

/// How long a server may owe an answer before it is doubted, that takes so long for one when nothing is in its way.
pub(super) fn patience(round_trip: Duration) -> Duration {
    (round_trip * ROUND_TRIPS).clamp(SILENT, LONGEST_SILENT)
}

/// How long a first connection may take before the client looks what listens there: 300 ms.
const LATE: Duration = Duration::from_millis(300);

/// How long an answer is waited for while a long reply or request is on its way: 20 times the timeout, a minute unless it
/// is set. 512 MB, the longest value, take that long at 9 MB a second.
const LONGEST_TRANSFER: u32 = 20;

/// The name of a command.
#[derive(Clone)]
pub(super) enum Named {
    Known(&'static str),
    Any(Bytes),
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Named::Known(name) => f.write_str(name),
            Named::Any(name) => f.write_str(&String::from_utf8_lossy(name)),
        }
    }
}

impl Named {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Named::Known(name) => name.as_bytes(),
            Named::Any(name) => name,
        }
    }
}

/// What a server is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeRole {
    Any,
    /// It watches over others, and has no data.
    Sentinel,
    /// It takes writes.
    Primary,
    /// It copies a primary, and is up to date.
    Replica,
    /// The same in a cluster, where reading there must be asked for.
    ClusterReplica,
}

/// What is asked on a new connection before it is believed.
pub(super) enum Handshake {
    /// Nothing: a server that runs a script for too long refuses all but its end.
    Nothing,
    /// A sign of life.
    Life,
    /// Which process answers there, and of which replication history its data is.
    Identity,
    /// The same, what its clock says, and whether it has its part.
    Data { time: Arc<ServerClock>, part: NodeRole },
}

/// How long a server that has another part than expected is left alone: a promotion is a matter of moments.
const OTHER_PART: Duration = Duration::from_millis(100);

pub(super) struct Connection {
    way: Target,
    protocol: Protocol,
    connect_timeout: Duration,
    /// The present connection, or the last one.
    pipeline: Mutex<Pipeline>,
    /// Ends it.
    driving: Mutex<Option<AbortHandle>>,
    messages: mpsc::UnboundedSender<Push>,
    /// Where those messages are read, until somebody does.
    unread: Mutex<Option<mpsc::UnboundedReceiver<Push>>>,
    greeting: Handshake,
    clock: Clock,
    client_name: String,
    timeout: Duration,
    ping_interval: Duration,
    /// The node, for messages.
    place: String,
    is_encrypted: bool,
    /// What it has logged in with, where that changes.
    login: Option<Arc<Login>>,
    epoch: watch::Sender<Option<ConnectionId>>,
    /// Where it tells of its epochs, if it is one of several.
    seat: Option<PoolMember>,
    /// The `master_replid` the handshake read; replaced before the epoch that belongs to it is told.
    history: Mutex<Arc<str>>,
    /// Why there is no connection.
    trouble: Mutex<Trouble>,
    /// Since when the server refuses this client, or this client the server's certificate.
    refused_since: Mutex<Option<Instant>>,
    /// Whether there has ever been a connection. What was right once may be right again.
    has_been_up: AtomicBool,
    doubt: Notify,
    silence: Arc<Silence>,
    /// It leads to the wrong process: the next look makes another connection.
    leaving: AtomicBool,
    /// When it was last left because the server takes no writes.
    left_at: Mutex<Option<Instant>>,
    closing: watch::Sender<bool>,
}

impl Connection {
    /// A connection that is set up in the background, and again whenever it is lost.
    pub(super) fn open(
        way: &Target,
        settings: &Settings,
        clock: Clock,
        client_name: String,
        greeting: Handshake,
        seat: Option<PoolMember>,
    ) -> Result<(Arc<Connection>, JoinHandle<()>), ServerError> {
        let login = way.entry.logins.clone().map(Login::new);
        let (messages, unread) = mpsc::unbounded_channel();
        let link = Arc::new(Connection {
            way: way.clone(),
            protocol: settings.protocol,
            connect_timeout: settings.connect_timeout,
            pipeline: Mutex::new(Pipeline::ended()),
            driving: Mutex::default(),
            messages,
            unread: Mutex::new(Some(unread)),
            greeting,
            clock,
            client_name,
            timeout: settings.timeout,
            ping_interval: settings.ping_interval,
            place: way.place.to_string(),
            is_encrypted: way.entry.encryption.is_some(),
            login,
            seat,
            epoch: watch::Sender::new(None),
            history: Mutex::default(),
            trouble: Mutex::new(Trouble::passing("not connected yet")),
            refused_since: Mutex::default(),
            has_been_up: AtomicBool::new(false),
            doubt: Notify::new(),
            silence: Arc::default(),
            leaving: AtomicBool::new(false),
            left_at: Mutex::default(),
            closing: watch::Sender::new(false),
        });
        let task = tokio::spawn(Arc::clone(&link).keep());
        Ok((link, task))
    }

    pub(super) fn epoch(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.epoch.subscribe()
    }

    /// The replication history of the present epoch: random, and another one after every promotion and every full copy
    /// from elsewhere. Empty where it was not asked for, or may not be.
    pub(super) fn history(&self) -> Arc<str> {
        Arc::clone(&self.history.lock().unwrap_or_else(|p| p.into_inner()))
    }

    pub(super) fn is_up(&self) -> bool {
        self.epoch.borrow().is_some()
    }

    /// Whether it is up, and the server has not owed an answer for long.
    pub(super) fn answers(&self) -> bool {
        let round_trip = match &self.greeting {
            Handshake::Data { time, .. } => time.round_trip(),
            Handshake::Nothing | Handshake::Life | Handshake::Identity => Duration::ZERO,
        };
        self.is_up() && self.silent_for() < patience(round_trip)
    }

    /// For how long the server has owed an answer and sent nothing.
    pub(super) fn silent_for(&self) -> Duration {
        self.silence.lasts(&self.clock)
    }

    fn pipeline(&self) -> Pipeline {
        self.pipeline.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    /// The messages of all its connections, for the first who asks.
    pub(super) fn messages(&self) -> mpsc::UnboundedReceiver<Push> {
        let unread = self.unread.lock().unwrap_or_else(|p| p.into_inner()).take();
        unread.unwrap_or_else(|| mpsc::unbounded_channel().1)
    }

    /// Sends one command, once. The order of first polls is the order on the wire.
    ///
    /// Where a provider has the password, a command that was refused for want of a login is sent again behind one.
    pub(super) async fn send(&self, name: Named, args: Vec<Value>) -> Result<Reply, ServerError> {
        let Some(login) = &self.login else { return self.send_once(&name, &args).await };
        let count = login.count();
        match self.send_once(&name, &args).await {
            Err(refused) if wants_login(&refused) => {
                let again = async {
                    login.again(count, |credentials| self.authenticate(credentials)).await?;
                    self.send_once(&name, &args).await
                };
                // Boxed: it is rare, and the future of every call would have room for it.
                Box::pin(again).await
            }
            answer => answer,
        }
    }

    /// Sends a command that subscribes to channels or unsubscribes from them; it is answered when the server has
    /// confirmed that of each.
    pub(super) async fn send_for(&self, command: &'static str, channels: &[Bytes]) -> Result<(), ServerError> {
        let args: Vec<_> = channels.iter().cloned().map(Value::from).collect();
        let once = async || {
            let expects = Expects::Confirmations(command, channels.to_vec());
            let (pipeline, owed) = (self.pipeline(), self.silence.asked(self.clock.now()));
            let asked = pipeline.ask(&Named::Known(command), &args, expects);
            self.answer(&pipeline, asked, owed).await.map(drop)
        };
        let Some(login) = &self.login else { return once().await };
        let count = login.count();
        match once().await {
            Err(refused) if wants_login(&refused) => {
                login.again(count, |credentials| self.authenticate(credentials)).await?;
                once().await
            }
            answer => answer,
        }
    }

    /// Leaves sharded channels; it ends when the server has seen to that.
    pub(super) async fn leave_sharded(&self, channels: &[Bytes]) {
        let (pipeline, owed) = (self.pipeline(), self.silence.asked(self.clock.now()));
        let asked = pipeline.leave(channels);
        // What is refused is not subscribed, or the connection has gone.
        let _ = self.answer(&pipeline, asked, owed).await;
    }

    async fn authenticate(&self, credentials: Credentials) -> Result<(), ServerError> {
        let args = login_words(credentials, self.pipeline().is_resp2());
        match self.send_once(&Named::Known("AUTH"), &args).await {
            // A server that does not know the command repeats its arguments.
            Err(ServerError::Refused { message, .. }) => Err(ServerError::refused(without_arguments(&message))),
            answer => answer.map(drop),
        }
    }

    async fn send_once(&self, name: &Named, args: &[Value]) -> Result<Reply, ServerError> {
        let (pipeline, owed) = (self.pipeline(), self.silence.asked(self.clock.now()));
        let asked = pipeline.ask(name, args, Expects::Reply);
        self.answer(&pipeline, asked, owed).await
    }

    /// Waits for an answer. One that takes long is waited for beyond the timeout while a long reply or request is
    /// on its way over this connection.
    async fn answer(
        &self,
        pipeline: &Pipeline,
        asked: Result<oneshot::Receiver<Answer>, Unanswered>,
        owed: Asked<'_>,
    ) -> Result<Reply, ServerError> {
        let mut answer = asked.map_err(|why| self.unanswered(pipeline, why))?;
        let mut waited = 1;
        let answered = loop {
            match timeout(self.timeout, &mut answer).await {
                Ok(answered) => break answered.unwrap_or(Err(Unanswered::Lost)),
                Err(_) if pipeline.is_midway() && self.silent_for() < self.timeout && waited < LONGEST_TRANSFER => {}
                Err(_) => {
                    self.doubt.notify_one();
                    return Err(ServerError::unknown(format!("{LATE_ANSWER} (at {})", self.place)));
                }
            }
            waited += 1;
        };
        drop(owed);
        match answered {
            Ok(Reply::Error(error)) => {
                if is_read_only(&error) {
                    self.report_read_only();
                }
                Err(self.named(error))
            }
            Ok(reply) => Ok(reply),
            Err(why) => {
                let error = self.unanswered(pipeline, why);
                if error.is_unknown() {
                    self.doubt.notify_one();
                }
                Err(error)
            }
        }
    }

    pub(super) fn send_static(
        &self,
        name: &'static str,
        args: Vec<Value>,
    ) -> impl Future<Output = Result<Reply, ServerError>> {
        self.send(Named::Known(name), args)
    }

    /// Drops the connection and makes another, because what it says can no longer be believed.
    pub(super) fn renew(&self) {
        self.fail("it was given up after an unexpected answer");
        if let Some(driving) = &*self.driving() {
            driving.abort();
        }
        self.doubt.notify_one();
    }

    /// Begins a new epoch on the same connection, because the server is no longer what the handshake found.
    pub(super) fn repeat_handshake(&self, why: &str) {
        self.fail(why);
        self.doubt.notify_one();
    }

    /// The server has said that it takes no writes. Where no topology finds out who has taken its place, its name or address may
    /// lead to that one by now, while the former one keeps its connections.
    pub(super) fn report_read_only(&self) {
        if !matches!(self.greeting, Handshake::Identity | Handshake::Data { part: NodeRole::Any, .. }) {
            return self.doubt.notify_one();
        }
        let mut left_at = self.left_at.lock().unwrap_or_else(|p| p.into_inner());
        if left_at.is_none_or(|at| at.elapsed() >= LONGEST_WAIT) {
            *left_at = Some(Instant::now());
            self.reconnect("the server takes no writes");
        }
    }

    /// Has another connection made soon, because this one leads elsewhere.
    pub(super) fn reconnect(&self, why: &str) {
        self.leaving.store(true, Ordering::Release);
        self.repeat_handshake(why);
    }

    /// Ends the connection and the tasks that watch it.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Completes when the connection is to end.
    pub(super) async fn closing(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    /// Has it probed soon.
    pub(super) fn suspect(&self) {
        self.doubt.notify_one();
    }

    /// Sends commands back to back, with none of others between them.
    pub(super) async fn send_together(&self, commands: Vec<(Named, Vec<Value>)>) -> Vec<Result<Reply, ServerError>> {
        let Some(login) = &self.login else { return self.send_together_once(&commands).await };
        let count = login.count();
        let answers = self.send_together_once(&commands).await;
        let is_refused = |answer: &Result<_, ServerError>| answer.as_ref().is_err_and(wants_login);
        if !answers.iter().all(is_refused) || login.again(count, |with| self.authenticate(with)).await.is_err() {
            return answers;
        }
        self.send_together_once(&commands).await
    }

    async fn send_together_once(&self, commands: &[(Named, Vec<Value>)]) -> Vec<Result<Reply, ServerError>> {
        let (pipeline, now) = (self.pipeline(), self.clock.now());
        let owed: Vec<_> = commands.iter().map(|_| self.silence.asked(now)).collect();
        match pipeline.ask_together(commands) {
            Ok(asked) => {
                let answers = asked.into_iter().zip(owed).map(|(asked, owed)| self.answer(&pipeline, Ok(asked), owed));
                join_all(answers).await
            }
            Err(why) => commands.iter().map(|_| Err(self.unanswered(&pipeline, why))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_far_away_is_not_doubted_because_of_its_way() {
        let ms = Duration::from_millis;
        assert_eq!((patience(ms(0)), patience(ms(1)), patience(ms(25))), (SILENT, SILENT, SILENT));
        assert_eq!((patience(ms(120)), patience(ms(5000))), (ms(480), LONGEST_SILENT));
    }
}
