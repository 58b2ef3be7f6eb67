//! The connection that carries subscriptions: SUBSCRIBE, UNSUBSCRIBE, PING and CLIENT INFO, nothing else.
//!
//! fred answers a SUBSCRIBE before the server has it, and an error reply to it (a denied channel) has
//! no owner there. So a PING with a text of its own is written right behind every SUBSCRIBE, in one
//! piece. The text in its answer proves that the server has handled the SUBSCRIBE. An error in its
//! place is the refusal, in the server's words; the answer that then comes one command late is waited
//! for by further PINGs.
//!
//! An SSUBSCRIBE is answered as any command is, channel by channel, if it carries one channel.

mod read;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use fred::interfaces::PubsubInterface;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub(super) use self::read::Carries;
use self::read::{Carried, read};
use super::link::{Link, Named, wants_login};
use super::slot::slot;
use super::{ChannelKind, Epoch, Push, Refused, Reply};
use crate::error::{Code, ServerError};
use crate::pattern::are_apart;

/// How often it is tried to fall into step: each answer that is not its own is one of those before.
const STEPS: usize = 300;

/// How long the connection for events is waited for that is opened when some are first listened to: 250 ms. Longer than it takes nearby;
/// nothing else is subscribed at the node meanwhile, and it is tried again.
const CONNECTING: Duration = Duration::from_millis(250);

pub(super) struct Subscriber {
    link: Arc<Link>,
    /// One exchange at a time: a SUBSCRIBE and the question behind it are not to be torn apart.
    turn: tokio::sync::Mutex<Subscribed>,
    pushes: Arc<Mutex<mpsc::UnboundedSender<Push>>>,
    /// What is subscribed no more, to be told behind its last message.
    ended: mpsc::UnboundedSender<Vec<Bytes>>,
    /// The last connection on which something was subscribed; 0 before there was one.
    confirmed: Arc<AtomicU64>,
    carried: Carried,
}

/// What was subscribed, and on which connection.
#[derive(Default)]
struct Subscribed {
    connection: u64,
    sharded: HashSet<String>,
    /// A SUBSCRIBE was left in the middle: what it came to is not known.
    midway: bool,
    /// Number of PINGs sent.
    steps: u64,
}

impl Subscribed {
    /// A text that no other PING of this connection carries.
    fn next_token(&mut self) -> String {
        self.steps += 1;
        format!("step {}", self.steps)
    }

    /// A new connection begins with nothing.
    fn on(&mut self, connection: u64) {
        if self.connection != connection {
            *self = Subscribed { connection, ..Subscribed::default() };
        }
    }
}

impl Subscriber {
    /// `commands` is the life of the connection for requests: where that one leads to another process, this one follows.
    pub(super) fn open(link: Arc<Link>, commands: watch::Receiver<Option<Epoch>>) -> (Self, JoinHandle<()>) {
        let pushes = Arc::new(Mutex::new(mpsc::unbounded_channel().0));
        Subscriber::over(link, commands, pushes, Carries::Messages)
    }

    /// Another one, whose stream of pushes is the same.
    pub(super) fn beside(
        &self,
        link: Arc<Link>,
        commands: watch::Receiver<Option<Epoch>>,
        carries: Carries,
    ) -> (Self, JoinHandle<()>) {
        Subscriber::over(link, commands, Arc::clone(&self.pushes), carries)
    }

    /// Whether it carries this pattern.
    pub(super) fn carries(&self, pattern: &Bytes) -> bool {
        self.carried().contains(pattern)
    }

    /// Has it carry a pattern, unless one name may be of that and of another that it carries.
    pub(super) fn take_in(&self, pattern: &Bytes) -> bool {
        let mut carried = self.carried();
        carried.iter().all(|other| are_apart(pattern, other)) && carried.insert(pattern.clone())
    }

    /// It carries them no more.
    pub(super) fn let_go(&self, patterns: &[Bytes]) {
        self.carried().retain(|carried| !patterns.contains(carried));
    }

    /// Whether it carries no pattern.
    pub(super) fn is_idle(&self) -> bool {
        self.carried().is_empty()
    }

    fn carried(&self) -> MutexGuard<'_, HashSet<Bytes>> {
        self.carried.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn over(
        link: Arc<Link>,
        commands: watch::Receiver<Option<Epoch>>,
        pushes: Arc<Mutex<mpsc::UnboundedSender<Push>>>,
        carries: Carries,
    ) -> (Self, JoinHandle<()>) {
        let (ended, endings) = mpsc::unbounded_channel();
        let confirmed = Arc::new(AtomicU64::new(0));
        let carried = Carried::default();
        let told = (Arc::clone(&pushes), Arc::clone(&confirmed), Arc::clone(&carried));
        let reading = tokio::spawn(read(Arc::clone(&link), told, endings, commands, carries));
        (Subscriber { link, turn: tokio::sync::Mutex::default(), pushes, ended, confirmed, carried }, reading)
    }

    /// Subscribes them, and tells which of them the server refused.
    pub(super) async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        if channels.is_empty() {
            return Ok(Vec::new());
        }
        let channels = as_text(channels)?;
        let mut subscribed = self.turn.lock().await;
        let Some(connection) = self.connection() else { return Err(self.link.down()) };
        subscribed.on(connection);
        if subscribed.midway {
            self.link.renew();
            return Err(ServerError::unknown("an earlier SUBSCRIBE was left in the middle"));
        }
        subscribed.midway = true;
        let refused = match kind {
            ChannelKind::Plain | ChannelKind::Events | ChannelKind::Patterns => {
                self.subscribe_plain(&mut subscribed, kind, &channels).await
            }
            ChannelKind::Sharded => self.subscribe_sharded(&mut subscribed, &channels).await,
        };
        subscribed.midway = false;
        let refused = match refused {
            Ok(refused) => refused,
            // The connection stays: it has no part in a refusal that passes.
            Err(error @ ServerError::Refused { .. }) if !wants_login(&error) => return Err(error),
            Err(error) => {
                self.link.renew();
                return Err(error);
            }
        };
        // First this, then the look: whoever reads sees it when the connection has gone, or it is seen here.
        self.confirmed.store(connection, Ordering::SeqCst);
        if self.connection() != Some(connection) {
            return Err(ServerError::unknown("the connection was replaced"));
        }
        Ok(refused)
    }

    async fn subscribe_plain(
        &self,
        subscribed: &mut Subscribed,
        kind: ChannelKind,
        channels: &[String],
    ) -> Result<Refused, ServerError> {
        let pipeline = self.link.fred().pipeline();
        // Only queued here. fred writes a pipeline in one piece, and reads nothing meanwhile: a refusal
        // can not arrive before the PING expects its answer.
        let queued = match kind {
            ChannelKind::Patterns => pipeline.psubscribe(channels.to_vec()).await,
            _ => pipeline.subscribe(channels.to_vec()).await,
        };
        queued.map_err(|error| ServerError::not_sent(error.details().to_owned()))?;
        let token = subscribed.next_token();
        match self.link.send_last(&pipeline, PING, vec![token.as_str().into()]).await {
            Ok(answer) if is_pong(&answer, &token) => Ok(Vec::new()),
            Ok(other) => Err(ServerError::unknown(format!("a PING was answered by {other:?}"))),
            // Nothing proves the subscription where the user may not PING; polling covers a refusal.
            Err(error) if refuses_ping(&error) => Ok(Vec::new()),
            Err(error @ ServerError::Refused { .. }) => {
                self.fall_into_step(subscribed).await;
                match error.code().is_some_and(Code::is_passing) || wants_login(&error) {
                    true => Err(error),
                    // SUBSCRIBE is all or nothing: one denied channel denies them all.
                    false => Ok(channels.iter().map(|channel| (channel.clone().into(), error.clone())).collect()),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// One command for each: fred takes one answer for a command, and the server gives one for each channel. So each is known to
    /// be in force, or why it is not: it is denied, or its slot is elsewhere.
    async fn subscribe_sharded(
        &self,
        subscribed: &mut Subscribed,
        channels: &[String],
    ) -> Result<Refused, ServerError> {
        let commands =
            channels.iter().map(|channel| self.link.send_static("SSUBSCRIBE", vec![channel.as_str().into()]));
        let answers = join_all(commands).await;
        let mut refused = Vec::new();
        for (channel, answer) in channels.iter().zip(answers) {
            match answer {
                Ok(reply) if confirms(&reply, channel) => {
                    subscribed.sharded.insert(channel.clone());
                }
                Ok(other) => {
                    return Err(ServerError::unknown(format!("SSUBSCRIBE {channel} was answered by {other:?}")));
                }
                Err(error @ ServerError::Refused { .. }) => refused.push((channel.clone().into(), error)),
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    /// A replica ends sharded subscriptions when it learns of another primary, be it later than we do, and says so to nobody
    /// that fred would tell. So they are counted: where some are missing, all are made anew on another connection.
    pub(super) async fn look_after(&self) {
        // Whoever is at it finds out as well.
        let Ok(mut subscribed) = self.turn.try_lock() else { return };
        let Some(connection) = self.connection() else { return };
        subscribed.on(connection);
        let expected = subscribed.sharded.len();
        if expected > 0
            && let Some(counted) = self.count_sharded().await
            && counted < expected
        {
            self.link.renew();
        }
    }

    /// Counts the sharded channels of the connection; `None` where the server does not answer that.
    async fn count_sharded(&self) -> Option<usize> {
        let info = self.link.send_static("CLIENT", vec!["INFO".into()]).await.ok()?.into_typed::<String>().ok()?;
        info.split(' ').find_map(|part| part.strip_prefix("ssub=")?.parse().ok())
    }

    /// Waits until it is connected, for a moment.
    pub(super) async fn connected(&self) {
        let mut epoch = self.link.epoch();
        let _ = tokio::time::timeout(CONNECTING, epoch.wait_for(Option::is_some)).await;
    }

    fn connection(&self) -> Option<u64> {
        self.link.epoch().borrow().as_ref().map(|epoch| epoch.connection)
    }

    /// Unsubscribes them, and has it told when nothing of them comes any more.
    pub(super) async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.end(kind, channels.clone()).await;
        let _ = self.ended.send(channels);
    }

    async fn end(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        let Ok(channels) = as_text(channels) else { return };
        let mut subscribed = self.turn.lock().await;
        // An UNSUBSCRIBE without channels would end them all.
        if channels.is_empty() || !self.link.is_up() {
            return;
        }
        match kind {
            ChannelKind::Plain | ChannelKind::Events | ChannelKind::Patterns => {
                let _ = match kind {
                    ChannelKind::Patterns => self.link.fred().punsubscribe(channels).await,
                    _ => self.link.fred().unsubscribe(channels).await,
                };
            }
            ChannelKind::Sharded => {
                channels.iter().for_each(|channel| {
                    subscribed.sharded.remove(channel);
                });
                let mut by_slot = channels;
                by_slot.sort_by_cached_key(|channel| slot(channel.as_bytes()));
                for group in by_slot.chunk_by(|one, other| slot(one.as_bytes()) == slot(other.as_bytes())) {
                    let _ = self.link.fred().sunsubscribe(group.to_vec()).await;
                }
            }
        }
        self.fall_into_step(&mut subscribed).await;
    }

    /// fred waits for no answer to an UNSUBSCRIBE, and takes none for an SUNSUBSCRIBE; one whose slot has moved is refused, and those
    /// refusals are handed to whatever is sent next. So something is sent that only its own answer fits, until it gets it: by then the
    /// server has done all before.
    async fn fall_into_step(&self, subscribed: &mut Subscribed) {
        for _ in 0..STEPS {
            let token = subscribed.next_token();
            match self.link.send(PING, vec![token.as_str().into()]).await {
                Ok(answer) if is_pong(&answer, &token) => return,
                // Where the user may not PING nothing shows the order, and PINGs are all that is sent here.
                Err(error) if refuses_ping(&error) => return,
                Ok(_) | Err(ServerError::Refused { .. }) => {}
                // The connection has gone, and all that was out of step.
                Err(_) => return,
            }
        }
        self.link.renew();
    }

    /// The stream of what is pushed from now on; the one that was given out before ends.
    pub(super) fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.pushes.lock().unwrap_or_else(|p| p.into_inner()) = sender;
        receiver
    }

    pub(super) fn close(&self) {
        self.link.close();
    }
}

const PING: Named = Named::Known("PING");

/// Whether `reply` is the answer to a PING that carried `token`. With RESP2 it is a list of two.
fn is_pong(reply: &Reply, token: &str) -> bool {
    match reply {
        Reply::Bytes(text) => text == token.as_bytes(),
        Reply::Array(parts) => matches!(parts.last(), Some(Reply::Bytes(text)) if text == token.as_bytes()),
        _ => false,
    }
}

/// Whether a server refuses PING itself. Errors name the command in quotes of one kind or another.
fn refuses_ping(error: &ServerError) -> bool {
    let ServerError::Refused { message, .. } = error else { return false };
    let message = message.to_ascii_lowercase();
    ["'ping'", "`ping`"].iter().any(|named| message.contains(named))
}

/// Whether a reply says that `channel` is subscribed.
fn confirms(reply: &Reply, channel: &str) -> bool {
    let Reply::Array(parts) = reply else { return false };
    let is = |part: Option<&Reply>, what: &str| matches!(part, Some(Reply::Bytes(bytes)) if bytes == what.as_bytes());
    is(parts.first(), "ssubscribe") && is(parts.get(1), channel)
}

fn as_text(channels: Vec<Bytes>) -> Result<Vec<String>, ServerError> {
    let text = channels.into_iter().map(|channel| String::from_utf8(channel.to_vec()));
    text.collect::<Result<_, _>>().map_err(|_| ServerError::not_sent("a channel name is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_ping_is_told_from_a_refused_subscription() {
        for refused in [
            "NOPERM this user has no permissions to run the 'ping' command",
            "NOPERM User app has no permissions to run the 'ping' command",
            "ERR unknown command 'PING', with args beginning with: 'step 1' ",
            "ERR unknown command `PING`, with args beginning with: `step 1`, ",
        ] {
            assert!(refuses_ping(&ServerError::refused(refused)), "{refused}");
        }
        for refused in [
            "NOPERM this user has no permissions to access one of the channels used as arguments",
            "NOPERM this user has no permissions to run the 'subscribe' command",
            "ERR unknown command 'subscribe', with args beginning with: 'redisson_lock__channel:{a}' ",
        ] {
            assert!(!refuses_ping(&ServerError::refused(refused)), "{refused}");
        }
    }

    #[test]
    fn a_pong_is_recognised_in_both_protocols() {
        let text = |text: &'static str| Reply::Bytes(text.into());
        assert!(is_pong(&text("step 1"), "step 1"));
        assert!(is_pong(&Reply::Array(vec![text("pong"), text("step 1")]), "step 1"));
        for other in [text("PONG"), text("step 2"), Reply::Array(vec![text("pong"), text("")]), Reply::Nil] {
            assert!(!is_pong(&other, "step 1"), "{other:?}");
        }
    }
}
