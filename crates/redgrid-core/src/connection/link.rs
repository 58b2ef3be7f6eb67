//! One connection of fred's to one node, watched: told when it is up, verified when in doubt, set up again when it ends.
//!
//! fred reconnects by itself, but its router task can end for good, and it tells of losses only on side channels; so a
//! task of ours keeps the truth: [`Link::epoch`] is `Some` while the connection has answered its handshake.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client as Fred;
use fred::interfaces::{ClientLike, EventInterface};
use fred::prelude::{Builder, Error as FredError, ErrorKind, Options, Server as FredServer, ServerConfig, Value};
use fred::types::config::{Config as FredConfig, CredentialProvider, ReconnectPolicy, TcpConfig, UnresponsiveConfig};
use fred::types::{ClusterHash, CustomCommand, Resp3Frame, RespVersion};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::lines::Seat;
use super::login::Login;
use super::trouble::readable;
use super::way::{Place, Way};
use super::{Epoch, Reply, ServerClock};
use crate::clock::Clock;
use crate::config::{Credentials, Settings};
use crate::error::{Code, ServerError};

/// Waits between attempts to connect: 50 ms, doubled up to 2 s.
const RECONNECT: (u32, u32) = (50, 2000);

/// How long the end of a connection may take before it is simply dropped: 500 ms.
const QUIT: Duration = Duration::from_millis(500);

/// Commands that may wait inside fred: more than any burst of ours, less than all memory.
const LONGEST_QUEUE: usize = 65_536;

/// Messages that wait for our dispatcher before some are lost and a gap is told.
const MESSAGES: usize = 8192;

/// What fred says when a connection could not be set up in time, and what that may mean: a server that does not speak TLS
/// waits for the end of what it takes for a command.
const TOO_LATE: &str = "Request timed out.";
const NO_TLS: &str = "it could not be set up in time; does the server speak TLS there?";

/// The name of a command.
#[derive(Clone)]
pub(super) enum Named {
    Known(&'static str),
    Any(Bytes),
}

impl Named {
    fn command(self) -> CustomCommand {
        match self {
            Named::Known(name) => CustomCommand::new_static(name, ClusterHash::FirstKey, false),
            Named::Any(name) => {
                CustomCommand::new(String::from_utf8_lossy(&name).into_owned(), ClusterHash::FirstKey, false)
            }
        }
    }
}

/// What a server is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
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
pub(super) enum Greeting {
    /// A sign of life.
    Life,
    /// Which process answers there, and of which replication history its data is.
    Identity,
    /// The same, what its clock says, and whether it has its part.
    Data { time: Arc<ServerClock>, part: Part },
}

/// How long a server that has another part than expected is left alone: a promotion is a matter of moments.
const OTHER_PART: Duration = Duration::from_millis(100);

pub(super) struct Link {
    fred: Fred,
    options: Options,
    greeting: Greeting,
    clock: Clock,
    client_name: String,
    timeout: Duration,
    ping_interval: Duration,
    is_encrypted: bool,
    /// What it has logged in with, where that changes.
    login: Option<Arc<Login>>,
    epoch: watch::Sender<Option<Epoch>>,
    /// Where it tells of its epochs, if it is one of several.
    seat: Option<Seat>,
    /// The `master_replid` the handshake read; replaced before the epoch that belongs to it is told.
    history: Mutex<Arc<str>>,
    connections: AtomicU64,
    /// Why there is no connection, in the server's or the system's words.
    trouble: Mutex<String>,
    doubt: Notify,
    /// It leads to the wrong process: the next look makes another connection.
    leaving: AtomicBool,
    closing: watch::Sender<bool>,
}

impl Link {
    /// A connection that is set up in the background, and again whenever it is lost.
    pub(super) fn open(
        way: &Way,
        settings: &Settings,
        clock: Clock,
        client_name: String,
        greeting: Greeting,
        seat: Option<Seat>,
    ) -> Result<(Arc<Link>, JoinHandle<()>), ServerError> {
        let login = way.entry.logins.clone().map(Login::new);
        let fred = build(way, login.clone(), settings)
            .map_err(|error| ServerError::not_sent(format!("the client could not be built: {error}")))?;
        let link = Arc::new(Link {
            fred,
            options: Options {
                fail_fast: true,
                max_attempts: Some(1),
                timeout: Some(settings.timeout),
                ..Options::default()
            },
            greeting,
            clock,
            client_name,
            timeout: settings.timeout,
            ping_interval: settings.ping_interval,
            is_encrypted: way.entry.encryption.is_some(),
            login,
            seat,
            epoch: watch::Sender::new(None),
            history: Mutex::default(),
            connections: AtomicU64::new(0),
            trouble: Mutex::new("not connected yet".into()),
            doubt: Notify::new(),
            leaving: AtomicBool::new(false),
            closing: watch::Sender::new(false),
        });
        let task = tokio::spawn(Arc::clone(&link).keep());
        Ok((link, task))
    }

    pub(super) fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
        self.epoch.subscribe()
    }

    /// The replication history of the present epoch: random, and another one after every promotion and every full copy
    /// from elsewhere. Empty where it was not asked for, or may not be.
    pub(super) fn history(&self) -> Arc<str> {
        Arc::clone(&self.history.lock().unwrap_or_else(|p| p.into_inner()))
    }

    /// What the connection is called in `CLIENT LIST`, from the handshake on.
    pub(super) fn name(&self) -> &str {
        &self.client_name
    }

    pub(super) fn is_up(&self) -> bool {
        self.epoch.borrow().is_some()
    }

    pub(super) fn fred(&self) -> &Fred {
        &self.fred
    }

    /// The error of a request that is not sent because there is no connection.
    pub(super) fn down(&self) -> ServerError {
        ServerError::not_sent(format!("no connection: {}", self.trouble()))
    }

    /// Why there is no connection, or was none before this one.
    pub(super) fn trouble(&self) -> String {
        let of_login = self.login.as_ref().and_then(|login| login.trouble());
        of_login.unwrap_or_else(|| self.trouble.lock().unwrap_or_else(|p| p.into_inner()).clone())
    }

    /// Sends one command, once. The order of first polls is the order on the wire.
    ///
    /// Where a provider has the password, a command that was refused for want of a login is sent again behind one.
    pub(super) async fn send(&self, name: Named, args: Vec<Value>) -> Result<Reply, ServerError> {
        let Some(login) = &self.login else { return self.send_once(name, args).await };
        let count = login.count();
        match self.send_once(name.clone(), args.clone()).await {
            Err(refused) if refused.code() == Some(Code::NoAuth) => {
                let again = async {
                    login.again(count, |credentials| self.authenticate(credentials)).await?;
                    self.send_once(name, args).await
                };
                // Boxed: it is rare, and the future of every call would have room for it.
                Box::pin(again).await
            }
            answer => answer,
        }
    }

    async fn authenticate(&self, credentials: Credentials) -> Result<(), ServerError> {
        let user = credentials.username.unwrap_or_else(|| "default".into());
        let args = vec![user.into(), credentials.password.reveal().into()];
        self.send_once(Named::Known("AUTH"), args).await.map(drop)
    }

    async fn send_once(&self, name: Named, args: Vec<Value>) -> Result<Reply, ServerError> {
        match self.fred.with_options(&self.options).custom_raw(name.command(), args).await {
            Ok(frame) => match into_reply(frame) {
                Reply::Error(error) => {
                    if error.code() == Some(Code::ReadOnly) {
                        self.doubt.notify_one();
                    }
                    Err(error)
                }
                reply => Ok(reply),
            },
            Err(error) => {
                let error = classify(&error);
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
    pub(super) async fn renew(&self) {
        self.fail("it was given up after an unexpected answer");
        let _ = tokio::time::timeout(self.timeout, self.fred.force_reconnection()).await;
        self.doubt.notify_one();
    }

    /// Begins a new epoch on the same connection, because the server is no longer what the handshake found.
    pub(super) fn greet_again(&self, why: &str) {
        self.fail(why);
        self.doubt.notify_one();
    }

    /// Has another connection made soon, because this one leads elsewhere.
    pub(super) fn leave(&self, why: &str) {
        self.leaving.store(true, Ordering::Release);
        self.greet_again(why);
    }

    /// Ends the connection and the tasks that watch it.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Completes when the connection is to end.
    pub(super) async fn closing(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    async fn keep(self: Arc<Self>) {
        let mut closing = self.closing.subscribe();
        let mut wait = Duration::from_millis(RECONNECT.0.into());
        loop {
            let router = tokio::select! {
                router = self.fred.init() => router,
                _ = closing.wait_for(|closed| *closed) => break,
            };
            match router {
                Ok(mut router) => {
                    let ended = self.watch(&mut router, &mut closing).await;
                    if ended {
                        let _ = tokio::time::timeout(QUIT, self.fred.quit()).await;
                        router.abort();
                        break;
                    }
                    router.abort();
                    wait = Duration::from_millis(RECONNECT.0.into());
                }
                Err(error) => {
                    self.fail(error.details());
                    if self.sleep_or_close(wait, &mut closing).await {
                        break;
                    }
                    wait = (wait * 2).min(Duration::from_millis(RECONNECT.1.into()));
                }
            }
        }
        self.fail("the client is shut down");
    }

    /// Follows the life of fred's router task; true when we are to close, false when the router has ended.
    async fn watch<T>(&self, router: &mut JoinHandle<T>, closing: &mut watch::Receiver<bool>) -> bool {
        let mut wait = Duration::from_millis(RECONNECT.0.into());
        let ask_every = self.login.as_ref().map(|login| login.every());
        let mut ask_at = ask_every.map(|every| Instant::now() + every);
        loop {
            // Subscribed once the connection is there and before the handshake: what happens after it is seen, and the
            // news of this very connection is not taken for that of another.
            let connected = self.fred.is_connected();
            let (mut errors, mut fresh) = (self.fred.error_rx(), self.fred.reconnect_rx());
            let greeting = async { if connected { self.handshake().await } else { Err(self.down()) } };
            match self.until_closed(greeting, closing).await {
                None => return true,
                Some(Ok(epoch)) => {
                    if let Some(seat) = &self.seat {
                        seat.tell(Some((&epoch, &self.history())));
                    }
                    self.epoch.send_replace(Some(epoch));
                    wait = Duration::from_millis(RECONNECT.0.into());
                }
                Some(Err(error)) => {
                    if connected {
                        self.fail(&error.to_string());
                    }
                    if router.is_finished() {
                        return false;
                    }
                    let another = connected && is_another_part(&error);
                    if self.sleep_or_close(if another { OTHER_PART } else { wait }, closing).await {
                        return true;
                    }
                    // What has stood in the way of the next attempt meanwhile.
                    while let Ok((error, _)) = errors.try_recv() {
                        self.fail(error.details());
                    }
                    // A greeting that is refused will be refused again; a connection that is not there yet soon is.
                    if connected {
                        wait = (wait * 2).min(Duration::from_millis(RECONNECT.1.into()));
                    }
                    continue;
                }
            }
            loop {
                let is_time_to_ask = tokio::select! {
                    _ = closing.wait_for(|closed| *closed) => return true,
                    _ = &mut *router => { self.fail("the connection task ended"); return false }
                    error = errors.recv() => {
                        self.fail(error.as_ref().map_or("events were missed", |(error, _)| error.details()));
                        break;
                    }
                    _ = fresh.recv() => { self.fail("the connection was replaced"); break }
                    () = self.doubt.notified() => false,
                    () = tokio::time::sleep(self.ping_interval) => false,
                    () = sleep_until(ask_at) => true,
                };
                if is_time_to_ask {
                    if self.until_closed(self.follow_login(), closing).await.is_none() {
                        return true;
                    }
                    ask_at = ask_every.map(|every| Instant::now() + every);
                    continue;
                }
                if self.leaving.swap(false, Ordering::AcqRel) {
                    if self.until_closed(self.renew(), closing).await.is_none() {
                        return true;
                    }
                    break;
                }
                let probe = tokio::time::timeout(self.timeout, self.probe());
                match self.until_closed(probe, closing).await {
                    None => return true,
                    // It lives; if it had been given up meanwhile, it is to be greeted again.
                    Some(Ok(Ok(()) | Err(ServerError::Refused { .. }))) if self.is_up() => {}
                    Some(Ok(Ok(()) | Err(ServerError::Refused { .. }))) => break,
                    Some(Ok(Err(error))) if is_another_part(&error) => {
                        self.fail(&error.to_string());
                        break;
                    }
                    Some(_) => {
                        if self.until_closed(self.renew(), closing).await.is_none() {
                            return true;
                        }
                        break;
                    }
                }
            }
        }
    }

    /// Logs in anew where the password has changed. Where that does not work the connection stays as it is, and the next
    /// look tries again.
    async fn follow_login(&self) {
        if let Some(login) = &self.login
            && let Err(error) = login.follow(|credentials| self.authenticate(credentials)).await
        {
            tracing::warn!(client = %self.client_name, %error, "could not log in anew; the connection stays");
        }
    }

    async fn handshake(&self) -> Result<Epoch, ServerError> {
        let named = self.send_static("CLIENT", vec!["SETNAME".into(), self.client_name.as_str().into()]).await;
        tolerate_refusal(named)?;
        let mut run_id = Arc::default();
        if let Greeting::Data { part, .. } = self.greeting {
            self.check(part).await?;
        }
        if let Greeting::Life = self.greeting {
            self.send_static("PING", Vec::new()).await?;
        } else {
            let (server, replication) = tokio::join!(self.info("server"), self.info("replication"));
            run_id = info_field(&server?, "run_id").into();
            *self.history.lock().unwrap_or_else(|p| p.into_inner()) = info_field(&replication?, "master_replid").into();
        }
        if let Greeting::Data { time, .. } = &self.greeting {
            time.reset();
            let (seconds, micros) = self.send_static("TIME", Vec::new()).await?.into_typed::<(u64, u64)>()?;
            time.observe(seconds * 1_000_000 + micros, self.clock.now());
        }
        let connection = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Epoch { run_id, connection })
    }

    /// A section of INFO; empty where the user may not ask.
    async fn info(&self, section: &'static str) -> Result<String, ServerError> {
        let info = tolerate_refusal(self.send_static("INFO", vec![section.into()]).await)?;
        Ok(info.and_then(|reply| reply.into_typed().ok()).unwrap_or_default())
    }

    /// Whether it lives and still has its part.
    async fn probe(&self) -> Result<(), ServerError> {
        self.send_static("PING", Vec::new()).await?;
        match self.greeting {
            Greeting::Data { part, .. } => self.check(part).await,
            Greeting::Life | Greeting::Identity => Ok(()),
        }
    }

    /// Has it probed soon.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Whether the server has the part that is expected of it. Who may not ask believes it.
    async fn check(&self, part: Part) -> Result<(), ServerError> {
        if part == Part::ClusterReplica {
            self.send_static("READONLY", Vec::new()).await?;
        }
        if matches!(part, Part::Any | Part::Sentinel) {
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
            (Part::Primary, "master", _) | (Part::Replica | Part::ClusterReplica, "slave", "connected") => Ok(()),
            (Part::Primary, role, _) => Err(ServerError::not_sent(format!("{NOT_ITS_PART} a primary, it is a {role}"))),
            (_, role, state) => Err(ServerError::not_sent(format!(
                "{NOT_ITS_PART} a replica in touch with its primary: {role} {state}"
            ))),
        }
    }

    /// Sends commands back to back, with none of others between them.
    pub(super) async fn send_together(&self, commands: Vec<(Named, Vec<Value>)>) -> Vec<Result<Reply, ServerError>> {
        let Some(login) = &self.login else { return self.send_together_once(commands).await };
        let count = login.count();
        let answers = self.send_together_once(commands.clone()).await;
        let is_refused =
            |answer: &Result<_, ServerError>| answer.as_ref().is_err_and(|error| error.code() == Some(Code::NoAuth));
        if !answers.iter().all(is_refused) || login.again(count, |with| self.authenticate(with)).await.is_err() {
            return answers;
        }
        self.send_together_once(commands).await
    }

    async fn send_together_once(&self, commands: Vec<(Named, Vec<Value>)>) -> Vec<Result<Reply, ServerError>> {
        let (count, pipeline) = (commands.len(), self.fred.pipeline());
        for (name, args) in commands {
            // It is only queued here, and answers so.
            let _ = pipeline.custom_raw(name.command(), args).await;
        }
        let answers = pipeline.try_all::<Value>().await;
        let mut answers: Vec<_> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(value) => Ok(from_value(value)),
                Err(error) => Err(refusal(&error).unwrap_or_else(|| classify(&error))),
            })
            .collect();
        if answers.iter().any(|answer| answer.as_ref().is_err_and(ServerError::is_unknown)) {
            self.doubt.notify_one();
        }
        answers.resize_with(count, || Err(ServerError::unknown("no answer")));
        answers
    }

    fn fail(&self, why: &str) {
        let why = if self.is_encrypted && why == TOO_LATE { NO_TLS.into() } else { readable(why) };
        // The reason first: whoever sees that the connection is lost may ask for it.
        self.trouble.lock().unwrap_or_else(|p| p.into_inner()).clone_from(&why);
        if let Some(seat) = &self.seat {
            seat.tell(None);
        }
        let lost = self.epoch.send_replace(None).is_some();
        if lost {
            tracing::debug!(client = %self.client_name, why, "connection lost");
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

/// Completes then; never without a time.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn build(way: &Way, login: Option<Arc<Login>>, settings: &Settings) -> Result<Fred, FredError> {
    let Way { place, entry } = way;
    let server = match (place, &entry.encryption) {
        (Place::Tcp(address), Some(encryption)) => ServerConfig::Centralized { server: encryption.server(address) },
        (Place::Tcp(address), None) => {
            ServerConfig::Centralized { server: FredServer::new(address.host.clone(), address.port) }
        }
        #[cfg(unix)]
        (Place::Unix(path), _) => ServerConfig::Unix { path: path.clone() },
    };
    // The provider has a time of its own before the login.
    let setup = if login.is_some() { settings.connect_timeout * 2 } else { settings.connect_timeout };
    let mut config = FredConfig {
        server,
        username: entry.username.clone(),
        password: entry.password.as_ref().map(|secret| secret.reveal().to_owned()),
        credential_provider: login.map(|login| login as Arc<dyn CredentialProvider>),
        database: (entry.database != 0).then_some(entry.database),
        version: RespVersion::RESP3,
        fail_fast: true,
        ..FredConfig::default()
    };
    if let Some(encryption) = &entry.encryption {
        encryption.set_up(&mut config);
    }
    let mut policy = ReconnectPolicy::new_exponential(0, RECONNECT.0, RECONNECT.1, 2);
    policy.set_jitter(RECONNECT.0 / 2);
    Builder::from_config(config)
        .set_policy(policy)
        .with_performance_config(|performance| {
            performance.default_command_timeout = settings.timeout;
            performance.broadcast_channel_capacity = MESSAGES;
        })
        .with_connection_config(|connection| {
            // Sent once: a re-sent script is a second execution that nobody asked for.
            connection.max_command_attempts = 1;
            connection.max_redirections = 0;
            connection.connection_timeout = settings.connect_timeout;
            connection.internal_command_timeout = setup;
            connection.max_command_buffer_len = LONGEST_QUEUE;
            connection.reconnect_on_auth_error = false;
            connection.auto_client_setname = false;
            connection.unresponsive = UnresponsiveConfig {
                // Below the timeout, so that a hung server costs the connection before it costs a second request.
                max_timeout: Some(settings.timeout * 2 / 3),
                interval: (settings.timeout / 15).max(Duration::from_millis(10)),
            };
            connection.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
        })
        .build()
}

const NOT_ITS_PART: &str = "the server is not";

fn is_another_part(error: &ServerError) -> bool {
    matches!(error, ServerError::NotSent { reason } if reason.starts_with(NOT_ITS_PART))
}

/// A server's error as a pipeline gives it: not as a frame, and not told apart from those of fred.
fn refusal(error: &FredError) -> Option<ServerError> {
    let refused = ServerError::refused(error.details());
    (refused.code() != Some(Code::Other) && refused.code() != Some(Code::ClusterDown)).then_some(refused)
}

fn from_value(value: Value) -> Reply {
    match value {
        Value::Null | Value::Queued => Reply::Nil,
        Value::Integer(n) => Reply::Int(n),
        Value::Double(x) => Reply::Double(x),
        Value::Boolean(truth) => Reply::Bool(truth),
        Value::String(text) => Reply::Bytes(text.into_inner()),
        Value::Bytes(bytes) => Reply::Bytes(bytes),
        Value::Array(items) => Reply::Array(items.into_iter().map(from_value).collect()),
        Value::Map(map) => {
            let pairs = map.inner().into_iter();
            Reply::Map(pairs.map(|(key, value)| (Reply::Bytes(key.into_bytes()), from_value(value))).collect())
        }
    }
}

/// What a failure inside fred means for the request.
fn classify(error: &FredError) -> ServerError {
    let details = error.details().to_owned();
    match error.kind() {
        // The text of fred's check before sending; the same kind with other words is given to requests in flight.
        ErrorKind::Canceled if details == "Connection closed unexpectedly." => ServerError::not_sent("no connection"),
        ErrorKind::Backpressure => ServerError::not_sent("too many requests wait for the connection"),
        ErrorKind::Unknown
            if details == "Client is not initialized." || details == "Failed to send command to router." =>
        {
            ServerError::not_sent("no connection")
        }
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand | ErrorKind::Config => ServerError::not_sent(details),
        _ => ServerError::unknown(details),
    }
}

/// The value of a field in the text of INFO; empty when it is not there.
pub(super) fn info_field<'a>(info: &'a str, field: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(field)?.strip_prefix(':');
    info.lines().find_map(value).unwrap_or_default().trim()
}

fn tolerate_refusal(answer: Result<Reply, ServerError>) -> Result<Option<Reply>, ServerError> {
    match answer {
        Ok(reply) => Ok(Some(reply)),
        Err(ServerError::Refused { code, .. }) if !code.is_passing() => Ok(None),
        Err(error) => Err(error),
    }
}

fn into_reply(frame: Resp3Frame) -> Reply {
    match frame {
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::VerbatimString { data, .. } => Reply::Bytes(data),
        Resp3Frame::ChunkedString(data) => Reply::Bytes(data),
        Resp3Frame::SimpleError { data, .. } => Reply::Error(ServerError::refused(&*data)),
        Resp3Frame::BlobError { data, .. } => {
            Reply::Error(ServerError::refused(String::from_utf8_lossy(&data).into_owned()))
        }
        Resp3Frame::Boolean { data, .. } => Reply::Bool(data),
        Resp3Frame::Null | Resp3Frame::Hello { .. } => Reply::Nil,
        Resp3Frame::Number { data, .. } => Reply::Int(data),
        Resp3Frame::Double { data, .. } => Reply::Double(data),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => {
            Reply::Array(data.into_iter().map(into_reply).collect())
        }
        Resp3Frame::Set { data, .. } => Reply::Array(data.into_iter().map(into_reply).collect()),
        Resp3Frame::Map { data, .. } => {
            Reply::Map(data.into_iter().map(|(k, v)| (into_reply(k), into_reply(v))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_info_is_found_by_its_whole_name() {
        let info = "# Replication\r\nrole:master\r\nmaster_replid2:0000\r\nmaster_replid:ab12\r\n";
        assert_eq!(info_field(info, "master_replid"), "ab12");
        assert_eq!(info_field(info, "role"), "master");
        assert_eq!(info_field(info, "run_id"), "");
    }

    #[test]
    fn only_what_certainly_did_not_leave_counts_as_not_sent() {
        let class = |kind, details: &'static str| classify(&FredError::new(kind, details));
        let not_sent = [
            (ErrorKind::Canceled, "Connection closed unexpectedly."),
            (ErrorKind::Backpressure, "Max in-flight commands reached."),
            (ErrorKind::Unknown, "Client is not initialized."),
        ];
        for (kind, details) in not_sent {
            assert!(matches!(class(kind, details), ServerError::NotSent { .. }), "{details}");
        }
        let unknown = [
            (ErrorKind::Canceled, "Canceled."),
            (ErrorKind::IO, "Connection closed."),
            (ErrorKind::Timeout, "Request timed out."),
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Cluster, "CLUSTERDOWN The cluster is down"),
        ];
        for (kind, details) in unknown {
            assert!(class(kind, details).is_unknown(), "{details}");
        }
    }
}
