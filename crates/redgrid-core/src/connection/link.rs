//! One connection of fred's to one node, watched: told when it is up, verified when in doubt, set up again when it ends.
//!
//! fred reconnects by itself, but its router task can end for good, and it tells of losses only on side channels; so a
//! task of ours keeps the truth: [`Link::epoch`] is `Some` while the connection has answered its handshake.

mod build;
mod diagnose;
mod frames;
mod keep;
mod set_up;
mod silence;
mod state;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fred::clients::{Client as Fred, Pipeline};
use fred::interfaces::ClientLike;
use fred::prelude::{Options, Value};
use fred::types::{ClusterHash, CustomCommand};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use self::build::{Blueprint, Target, without_arguments};
pub(super) use self::frames::info_field;
pub(super) use self::frames::wants_login;
use self::frames::{classify, from_value, into_reply, is_read_only, refusal};
use self::silence::Silence;
use super::lines::Seat;
use super::login::Login;
use super::trouble::Trouble;
use super::way::Way;
use super::{Epoch, Reply, ServerClock};
use crate::clock::Clock;
use crate::config::{Credentials, Settings};
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

/// Commands that may wait inside fred: more than any burst of ours, less than all memory.
const LONGEST_QUEUE: usize = 65_536;

/// Messages that wait for our dispatcher before some are lost and a gap is told.
const MESSAGES: usize = 8192;

/// The same of a connection for requests, which carries none: 64. fred has room for a dozen kinds of news from the beginning, 5 MB for as
/// many as there are messages.
const NEWS: usize = 64;

/// How long a first connection may take before the client looks what listens there: 300 ms.
const LATE: Duration = Duration::from_millis(300);

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
    /// Nothing: a server that runs a script for too long refuses all but its end.
    Nothing,
    /// A sign of life.
    Life,
    /// Which process answers there, and of which replication history its data is.
    Identity,
    /// The same, what its clock says, and whether it has its part.
    Data { time: Arc<ServerClock>, part: Part },
}

/// How long a server that has another part than expected is left alone: a promotion is a matter of moments.
const OTHER_PART: Duration = Duration::from_millis(100);

/// A client of fred, and what it was built for.
type Freds = (Target, Fred);

pub(super) struct Link {
    /// The client of fred for the present connection, or for the last one, and its target.
    fred: watch::Sender<Freds>,
    blueprint: Blueprint,
    /// Ends the task that drives the present connection.
    router: Mutex<Option<AbortHandle>>,
    options: Options,
    greeting: Greeting,
    clock: Clock,
    client_name: String,
    timeout: Duration,
    ping_interval: Duration,
    /// The node, for messages.
    place: String,
    is_encrypted: bool,
    /// What it has logged in with, where that changes.
    login: Option<Arc<Login>>,
    epoch: watch::Sender<Option<Epoch>>,
    /// Where it tells of its epochs, if it is one of several.
    seat: Option<Seat>,
    /// The `master_replid` the handshake read; replaced before the epoch that belongs to it is told.
    history: Mutex<Arc<str>>,
    /// Why there is no connection.
    trouble: Mutex<Trouble>,
    /// Since when the server refuses this client, or this client the server's certificate.
    refused_since: Mutex<Option<Instant>>,
    /// Whether there has ever been a connection. What was right once may be right again.
    has_been_up: AtomicBool,
    doubt: Notify,
    silence: Silence,
    /// It leads to the wrong process: the next look makes another connection.
    leaving: AtomicBool,
    /// When it was last left because the server takes no writes.
    left_at: Mutex<Option<Instant>>,
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
        let news = if seat.is_some() { NEWS } else { MESSAGES };
        let blueprint = Blueprint { way: way.clone(), login: login.clone(), settings: settings.clone(), news };
        let target = blueprint.known();
        let fred = blueprint
            .build(target)
            .map_err(|error| ServerError::not_sent(format!("the client could not be built: {error}")))?;
        let link = Arc::new(Link {
            fred: watch::Sender::new((target, fred)),
            blueprint,
            router: Mutex::default(),
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
            silence: Silence::default(),
            leaving: AtomicBool::new(false),
            left_at: Mutex::default(),
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

    /// Whether it is up, and the server has not owed an answer for long.
    pub(super) fn answers(&self) -> bool {
        let round_trip = match &self.greeting {
            Greeting::Data { time, .. } => time.round_trip(),
            Greeting::Nothing | Greeting::Life | Greeting::Identity => Duration::ZERO,
        };
        self.is_up() && self.silent_for() < patience(round_trip)
    }

    /// For how long the server has owed an answer and sent nothing.
    pub(super) fn silent_for(&self) -> Duration {
        self.silence.lasts(&self.clock)
    }

    /// Something has come that nobody asked for: the server lives.
    pub(super) fn heard(&self) {
        self.silence.heard();
    }

    pub(super) fn fred(&self) -> Fred {
        self.fred.borrow().1.clone()
    }

    /// The client of fred for each address in turn.
    pub(super) fn freds(&self) -> watch::Receiver<Freds> {
        self.fred.subscribe()
    }

    /// Sends one command, once. The order of first polls is the order on the wire.
    ///
    /// Where a provider has the password, a command that was refused for want of a login is sent again behind one.
    pub(super) async fn send(&self, name: Named, args: Vec<Value>) -> Result<Reply, ServerError> {
        let Some(login) = &self.login else { return self.send_once(name, args).await };
        let count = login.count();
        match self.send_once(name.clone(), args.clone()).await {
            Err(refused) if wants_login(&refused) => {
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
        let Credentials { username, password } = credentials;
        // Proxies and servers before Redis 6, which speak RESP2, know the password alone.
        let is_resp2 = self.fred.borrow().0.is_resp2;
        let user = username.or_else(|| (!is_resp2).then(|| "default".into()));
        let args = user.map(Value::from).into_iter().chain([password.reveal().into()]).collect();
        match self.send_once(Named::Known("AUTH"), args).await {
            // A server that does not know the command repeats its arguments.
            Err(ServerError::Refused { message, .. }) => Err(ServerError::refused(without_arguments(&message))),
            answer => answer.map(drop),
        }
    }

    async fn send_once(&self, name: Named, args: Vec<Value>) -> Result<Reply, ServerError> {
        let asked = self.silence.asked(self.clock.now());
        let answer = self.fred().with_options(&self.options).custom_raw(name.command(), args).await;
        if answer.is_ok() {
            asked.answered(self.clock.now());
        }
        drop(asked);
        match answer {
            Ok(frame) => match into_reply(frame) {
                Reply::Error(error) => {
                    if is_read_only(&error) {
                        self.takes_no_writes();
                    }
                    Err(self.named(error))
                }
                reply => Ok(reply),
            },
            Err(error) => {
                let error = classify(&error, &self.place);
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
        if let Some(router) = &*self.router() {
            router.abort();
        }
        self.doubt.notify_one();
    }

    /// Begins a new epoch on the same connection, because the server is no longer what the handshake found.
    pub(super) fn greet_again(&self, why: &str) {
        self.fail(why);
        self.doubt.notify_one();
    }

    /// The server has said that it takes no writes. Where no topology finds out who has taken its place, its name or address may
    /// lead to that one by now, while the former one keeps its connections.
    pub(super) fn takes_no_writes(&self) {
        if !matches!(self.greeting, Greeting::Identity | Greeting::Data { part: Part::Any, .. }) {
            return self.doubt.notify_one();
        }
        let mut left_at = self.left_at.lock().unwrap_or_else(|p| p.into_inner());
        if left_at.is_none_or(|at| at.elapsed() >= LONGEST_WAIT) {
            *left_at = Some(Instant::now());
            self.leave("the server takes no writes");
        }
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

    /// Has it probed soon.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Sends commands back to back, with none of others between them.
    pub(super) async fn send_together(&self, commands: Vec<(Named, Vec<Value>)>) -> Vec<Result<Reply, ServerError>> {
        let Some(login) = &self.login else { return self.send_together_once(commands).await };
        let count = login.count();
        let answers = self.send_together_once(commands.clone()).await;
        let is_refused = |answer: &Result<_, ServerError>| answer.as_ref().is_err_and(wants_login);
        if !answers.iter().all(is_refused) || login.again(count, |with| self.authenticate(with)).await.is_err() {
            return answers;
        }
        self.send_together_once(commands).await
    }

    /// Sends what a pipeline holds and one more command behind it, in one piece; returns the answer to that one.
    ///
    /// The pipeline holds subscriptions only, to which fred expects no answer.
    pub(super) async fn send_last(
        &self,
        pipeline: &Pipeline<Fred>,
        name: Named,
        args: Vec<Value>,
    ) -> Result<Reply, ServerError> {
        if !self.fred().is_connected() {
            return Err(self.down());
        }
        // It is only queued here, and answers so.
        let _ = pipeline.custom_raw(name.command(), args).await;
        let asked = self.silence.asked(self.clock.now());
        let answer = match pipeline.last::<Value>().await {
            Ok(value) => Ok(from_value(value)),
            Err(error) => Err(self.refused(&error)),
        };
        if !answer.as_ref().is_err_and(ServerError::is_unknown) {
            asked.answered(self.clock.now());
        }
        drop(asked);
        if answer.as_ref().is_err_and(ServerError::is_unknown) {
            self.doubt.notify_one();
        }
        answer
    }

    async fn send_together_once(&self, commands: Vec<(Named, Vec<Value>)>) -> Vec<Result<Reply, ServerError>> {
        let (count, pipeline) = (commands.len(), self.fred().pipeline());
        for (name, args) in commands {
            // It is only queued here, and answers so.
            let _ = pipeline.custom_raw(name.command(), args).await;
        }
        let asked = self.silence.asked(self.clock.now());
        let answers = pipeline.try_all::<Value>().await;
        if answers.iter().any(|answer| answer.as_ref().err().is_none_or(|error| refusal(error).is_some())) {
            asked.answered(self.clock.now());
        }
        drop(asked);
        let mut answers: Vec<_> = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(value) => Ok(from_value(value)),
                Err(error) => Err(self.refused(&error)),
            })
            .collect();
        let any = |is: &dyn Fn(&ServerError) -> bool| answers.iter().any(|answer| answer.as_ref().is_err_and(is));
        if any(&ServerError::is_unknown) {
            self.doubt.notify_one();
        }
        if any(&is_read_only) {
            self.takes_no_writes();
        }
        answers.resize_with(count, || Err(ServerError::unknown("no answer")));
        answers
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
