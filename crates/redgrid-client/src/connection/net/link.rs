//! One supervised connection to one node. Its task reports when the connection is up. The task
//! probes the server at intervals, and whenever the server is suspected of hanging. When the
//! connection has ended, the task sets it up again.
//!
//! [`Connection::epoch`] is `Some` from the answer to the handshake until the connection is lost or
//! given up.

mod diagnose;
mod handshake;
mod keep;
mod pipeline;
mod resp;
mod server_text;
mod set_up;
mod silence;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use self::handshake::{Handshake, NodeRole};
use self::pipeline::{Expects, Pipeline};
use self::server_text::without_arguments;
pub(crate) use self::server_text::{info_field, wants_login};
use self::set_up::login_args;
use self::silence::Silence;
use crate::config::Credentials;
use crate::connection::endpoint::Target;
use crate::connection::login::Login;
use crate::connection::pool::PoolMember;
use crate::connection::trouble::Trouble;
use crate::connection::{ConnectionId, Push, Reply};
use crate::error::ServerError;
use crate::sync::Mutex;

/// Limit of the back-off between two attempts to connect: 2 s. At this limit, a random time of 1 to
/// 2 s passes between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Lower bound of [`suspicion_timeout`], for near servers: 100 ms.
///
/// A live server nearby answers within a millisecond. The bound is higher than that, because each
/// suspicion causes a topology refresh.
const SILENT: Duration = Duration::from_millis(100);

/// Upper bound of [`suspicion_timeout`], for distant servers: 1 s.
///
/// The timeout grows with the round-trip time, which is the duration of the fastest exchange in the
/// last 10 to 20 s. If a server answers every request slowly, this round-trip time is long. Without
/// the upper bound, such a server would not be suspected.
const LONGEST_SILENT: Duration = Duration::from_secs(1);

/// Minimum number of round trips before a server is suspected: 4. A lost packet is retransmitted
/// within three round trips, so its loss alone causes no suspicion.
const ROUND_TRIPS: u32 = 4;

/// Returns the time after which a server is suspected of hanging if it sends nothing while a reply
/// is outstanding.
///
/// `round_trip` is the time that an exchange with the server takes without load.
pub(crate) fn suspicion_timeout(round_trip: Duration) -> Duration {
    (round_trip * ROUND_TRIPS).clamp(SILENT, LONGEST_SILENT)
}

pub(crate) type WireCommand = Vec<Bytes>;

pub(crate) fn wire<const N: usize>(args: [&'static str; N]) -> WireCommand {
    args.map(Bytes::from).to_vec()
}

pub(crate) struct Connection {
    target: Arc<Target>,
    client_name: String,
    /// The current connection or, while there is none, the previous one.
    pipeline: Mutex<Pipeline>,
    messages: mpsc::UnboundedSender<Push>,
    unread: Mutex<Option<mpsc::UnboundedReceiver<Push>>>,
    greeting: Handshake,
    /// The state of the login, if a credential provider supplies user and password.
    login: Option<Arc<Login>>,
    epoch: watch::Sender<Option<ConnectionId>>,
    /// The pool to which this connection reports its ids; `None` if it belongs to no pool.
    member: Option<PoolMember>,
    state: Mutex<State>,
    /// Whether the connection has ever been up. If so, even an error that indicates a wrong target
    /// is treated as temporary: the settings were right once, and may become right again.
    has_been_up: AtomicBool,
    doubt: Notify,
    silence: Arc<Silence>,
    /// Set if the connection must be replaced instead of probed; see [`Connection::reconnect`].
    leaving: AtomicBool,
    closing: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    /// The `master_replid` that the handshake read. It is stored before the id of the connection is
    /// published.
    history: Arc<str>,
    trouble: Trouble,
    /// When the server began to refuse this client, or this client began to refuse the server's
    /// certificate.
    refused_since: Option<Instant>,
    /// When the connection was last replaced because the server accepts no writes.
    left_at: Option<Instant>,
}

impl Connection {
    /// Opens a connection in the background, and reopens it whenever it is lost.
    pub(crate) fn open(
        target: &Arc<Target>,
        client_name: String,
        greeting: Handshake,
        member: Option<PoolMember>,
    ) -> Arc<Connection> {
        let (messages, unread) = mpsc::unbounded_channel();
        let trouble = Trouble::passing("not connected yet");
        let link = Arc::new(Connection {
            target: Arc::clone(target),
            client_name,
            pipeline: Mutex::new(Pipeline::ended()),
            messages,
            unread: Mutex::new(Some(unread)),
            greeting,
            login: target.entry.logins.clone().map(Login::new),
            member,
            epoch: watch::Sender::new(None),
            state: Mutex::new(State { history: Arc::default(), trouble, refused_since: None, left_at: None }),
            has_been_up: AtomicBool::new(false),
            doubt: Notify::new(),
            silence: Arc::default(),
            leaving: AtomicBool::new(false),
            closing: watch::Sender::new(false),
            task: Mutex::default(),
        });
        *link.task.lock() = Some(tokio::spawn(Arc::clone(&link).keep()));
        link
    }

    fn timeout(&self) -> Duration {
        self.target.settings.response_timeout
    }

    /// Waits until the task of the connection has ended, after [`Connection::close`].
    pub(crate) async fn ended(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }

    pub(crate) fn epoch(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.epoch.subscribe()
    }

    /// Returns the id of the server's replication history (`master_replid`), as the handshake read
    /// it.
    ///
    /// The id is random, and changes with every promotion and every full copy from another server.
    /// It is empty if the handshake did not request it, or if the user is not allowed to read it.
    pub(crate) fn history(&self) -> Arc<str> {
        Arc::clone(&self.state.lock().history)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.epoch.borrow().is_some()
    }

    /// Returns whether the connection is up, and has been silent for less than
    /// [`suspicion_timeout`].
    pub(crate) fn answers(&self) -> bool {
        let round_trip = match &self.greeting {
            Handshake::Data { time, .. } => time.round_trip(),
            Handshake::Nothing | Handshake::Life | Handshake::Identity => Duration::ZERO,
        };
        self.is_up() && self.silent_for() < suspicion_timeout(round_trip)
    }

    pub(crate) fn silent_for(&self) -> Duration {
        self.silence.lasts(&self.target.clock)
    }

    fn pipeline(&self) -> Pipeline {
        self.pipeline.lock().clone()
    }

    /// Returns the stream of messages, which continues when the connection is set up again. Only
    /// the first call returns it; later calls return an empty stream.
    pub(crate) fn messages(&self) -> mpsc::UnboundedReceiver<Push> {
        let unread = self.unread.lock().take();
        unread.unwrap_or_else(|| mpsc::unbounded_channel().1)
    }

    /// Sends a command that subscribes to channels, or unsubscribes from them.
    ///
    /// Completes when the server has confirmed each channel, or refused the command.
    pub(crate) async fn send_channels(&self, name: &'static str, channels: &[Bytes]) -> Result<(), ServerError> {
        let command = std::iter::once(name.into()).chain(channels.iter().cloned()).collect();
        self.send_for(command, Expects::Confirmations(name, channels.to_vec())).await.map(drop)
    }

    pub(crate) async fn leave_sharded(&self, channels: &[Bytes]) {
        let (pipeline, outstanding) = (self.pipeline(), self.silence.request_sent(self.target.clock.now()));
        let receiver = pipeline.leave(channels);
        // An error is ignored: in each case the channels are no longer subscribed. Either the
        // connection was lost, and its subscriptions with it. Or the server refused only the PING
        // that follows the unsubscriptions. The queue of this connection is never full: see
        // `Subscriber::end`.
        let _ = self.answer(&pipeline, receiver, outstanding).await;
    }

    pub(crate) async fn authenticate(&self, credentials: Credentials) -> Result<(), ServerError> {
        let login = login_args(credentials, self.pipeline().is_resp2());
        let command: WireCommand = std::iter::once("AUTH".into()).chain(login).collect();
        match self.send_once(&command, Expects::Reply).await {
            // A server that does not know AUTH repeats the arguments in its error, including the
            // password.
            Err(ServerError::Refused { message, .. }) => Err(ServerError::refused(without_arguments(&message))),
            answer => answer.map(drop),
        }
    }

    /// Replaces this connection, because its replies can no longer be trusted.
    pub(crate) fn renew(&self) {
        self.fail("it was closed after an unexpected reply");
        self.pipeline().abort();
        self.doubt.notify_one();
    }

    /// Withdraws the connection id and repeats the handshake on the same connection, because the
    /// result of the last handshake is outdated.
    pub(crate) fn repeat_handshake(&self, why: &str) {
        self.fail(why);
        self.doubt.notify_one();
    }

    /// Handles an error that says that the server accepts no writes.
    ///
    /// If a certain [role](NodeRole) is expected of the server, the role is checked. Otherwise the
    /// connection is replaced, at most once in 2 s. The reason is that the same address may already
    /// lead to a new primary, while the former primary keeps this connection open.
    pub(crate) fn report_read_only(&self) {
        if !matches!(self.greeting, Handshake::Identity | Handshake::Data { part: NodeRole::Any, .. }) {
            return self.doubt.notify_one();
        }
        let mut state = self.state.lock();
        if state.left_at.is_none_or(|at| at.elapsed() >= LONGEST_WAIT) {
            state.left_at = Some(Instant::now());
            drop(state);
            self.reconnect("the server accepts no writes");
        }
    }

    /// Schedules the replacement of the connection, for example because the other connections of
    /// its pool lead to another server process.
    pub(crate) fn reconnect(&self, why: &str) {
        self.leaving.store(true, Ordering::Release);
        self.repeat_handshake(why);
    }

    /// Closes the connection and ends the task that supervises it.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) async fn closing(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn suspect(&self) {
        self.doubt.notify_one();
    }

    /// Sends commands back to back, without commands of other callers between them.
    pub(crate) async fn send_together(&self, commands: Vec<WireCommand>) -> Vec<Result<Reply, ServerError>> {
        let Some(login) = &self.login else { return self.send_together_once(&commands).await };
        let count = login.count();
        let answers = self.send_together_once(&commands).await;
        let is_refused = |answer: &Result<_, ServerError>| answer.as_ref().is_err_and(wants_login);
        if !answers.iter().all(is_refused) || login.again(count, self).await.is_err() {
            return answers;
        }
        self.send_together_once(&commands).await
    }

    async fn send_together_once(&self, commands: &[WireCommand]) -> Vec<Result<Reply, ServerError>> {
        let (pipeline, now) = (self.pipeline(), self.target.clock.now());
        let outstanding: Vec<_> = commands.iter().map(|_| self.silence.request_sent(now)).collect();
        match pipeline.enqueue_together(commands) {
            Ok(receivers) => {
                let answers = receivers
                    .into_iter()
                    .zip(outstanding)
                    .map(|(receiver, outstanding)| self.answer(&pipeline, Ok(receiver), outstanding));
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
    fn a_distant_server_is_not_suspected_because_of_its_round_trip() {
        let ms = Duration::from_millis;
        assert_eq!(
            (suspicion_timeout(ms(0)), suspicion_timeout(ms(1)), suspicion_timeout(ms(25))),
            (SILENT, SILENT, SILENT)
        );
        assert_eq!((suspicion_timeout(ms(120)), suspicion_timeout(ms(5000))), (ms(480), LONGEST_SILENT));
    }
}
