//! One connection to a server. Requests are written in the order of their creation and answered in
//! that order.
//!
//! Requests are encoded by their callers. One task per connection writes the encoded bytes, reads
//! the replies, and passes each to the oldest outstanding request. Messages and subscription
//! confirmations may arrive between replies. RESP3 marks them as pushes. With RESP2 they are
//! arrays: only a connection with subscriptions, which never requests arrays, treats arrays as
//! pushes.

mod drive;
mod pushes;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use self::drive::{Finish, drive};
use self::pushes::{Pushed, is_push, sort, unasked};
use super::resp::{Frame, encode};
use super::silence::Silence;
use super::{WireCommand, wire};
use crate::clock::Clock;
use crate::config::network::Stream;
use crate::connection::trouble::{CLOSED, NO_PROTOCOL};
use crate::connection::{Push, Reply};

/// The maximum number of outstanding requests: above any burst of ours, below all memory.
const LONGEST_QUEUE: usize = 65_536;

/// Buffer capacity that is kept; what a long reply or request needed beyond it is freed.
const KEPT: usize = 1 << 20;

/// Time limit for closing a connection before it is dropped: 100 ms.
///
/// Callers that wait for a reply of a hanging primary that was replaced are notified after this
/// time. They then use the new primary.
const QUIT: Duration = Duration::from_millis(100);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The connection has ended, and no server has received the whole request.
    NotWritten,
    /// The request was not written because too many requests are outstanding.
    Full,
    /// The connection has ended, and the request may have been executed.
    Lost,
}

pub(super) type Answer = Result<Reply, Unanswered>;

/// What answers a request.
#[derive(Clone)]
pub(super) enum Expects {
    Reply,
    /// A confirmation for each of these channels: the command name in lower case, and the channels.
    Confirmations(&'static str, Vec<Bytes>),
    /// The reply to the PING with this token that follows an SUNSUBSCRIBE from these channels.
    ///
    /// The confirmations themselves are ambiguous: a server sends the same when it ends a
    /// subscription on its own and then rejects the command.
    Pong {
        token: Bytes,
        channels: Vec<Bytes>,
    },
}

/// The destinations of events other than replies.
#[derive(Clone)]
pub(super) struct Outputs {
    pub(super) silence: Arc<Silence>,
    pub(super) clock: Clock,
    /// Receives the messages of subscriptions.
    pub(super) messages: mpsc::UnboundedSender<Push>,
    /// Whether a failed write has sent nothing, as with sockets of the operating system.
    pub(super) is_socket: bool,
}

/// A handle to one connection; clones share it.
#[derive(Clone)]
pub(super) struct Pipeline(Arc<Shared>);

struct Shared {
    is_resp2: bool,
    queue: Mutex<Queue>,
    /// Notified when there is data to write.
    more: Notify,
    /// Notified when the connection has ended and all outstanding requests have been answered.
    finished: Notify,
    is_finished: AtomicBool,
    /// Number of bytes that the operating system has accepted.
    written: AtomicU64,
    /// A request is partly written.
    is_writing: AtomicBool,
    /// A reply has partly arrived.
    is_reading: AtomicBool,
    /// The task that drives the connection.
    task: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct Queue {
    outgoing: BytesMut,
    /// Number of bytes encoded since the connection began.
    encoded: u64,
    waiting: VecDeque<Waiting>,
    /// The connection has had a subscription.
    has_subscriptions: bool,
    /// Why the connection has ended.
    ended: Option<String>,
}

struct Waiting {
    /// End of the request, in bytes since the connection began.
    end: u64,
    expects: Expects,
    answer: oneshot::Sender<Answer>,
}

impl Pipeline {
    /// Starts the task that drives a stream.
    ///
    /// The task ends with the connection, and the connection with the task.
    pub(super) fn start(stream: Box<dyn Stream>, is_resp2: bool, told: Outputs) -> Pipeline {
        let pipeline = Pipeline::new(is_resp2, None);
        // `Finish` also answers the requests if the task is aborted before its first poll.
        let task = tokio::spawn(drive(Finish(pipeline.clone()), stream, told));
        let _ = pipeline.0.task.set(task.abort_handle());
        pipeline
    }

    /// Closes the connection once outstanding requests are answered, or after a short limit.
    pub(super) async fn quit(&self) {
        if let Ok(answer) = self.ask(&wire(["QUIT"]), Expects::Reply) {
            let _ = tokio::time::timeout(QUIT, answer).await;
        }
        self.abort();
    }

    /// Closes the connection at once.
    pub(super) fn abort(&self) {
        self.0.task.get().into_iter().for_each(AbortHandle::abort);
    }

    /// Returns a connection that ended before it began.
    pub(super) fn ended() -> Self {
        Pipeline::new(false, Some(CLOSED.into()))
    }

    fn new(is_resp2: bool, ended: Option<String>) -> Self {
        let is_finished = AtomicBool::new(ended.is_some());
        Pipeline(Arc::new(Shared {
            is_resp2,
            queue: Mutex::new(Queue { ended, ..Queue::default() }),
            more: Notify::new(),
            finished: Notify::new(),
            is_finished,
            written: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
            task: OnceLock::new(),
        }))
    }

    pub(super) fn is_resp2(&self) -> bool {
        self.0.is_resp2
    }

    /// Returns why the connection has ended; `None` while it is open.
    pub(super) fn end(&self) -> Option<String> {
        self.queue().ended.clone()
    }

    /// Completes when the connection has ended and all requests are answered; returns the reason.
    pub(super) async fn lost(&self) -> String {
        loop {
            let mut finished = std::pin::pin!(self.0.finished.notified());
            finished.as_mut().enable();
            if self.0.is_finished.load(Ordering::Acquire) {
                return self.end().unwrap_or_default();
            }
            finished.await;
        }
    }

    /// Returns whether a request or a reply has been transferred in part.
    pub(super) fn is_midway(&self) -> bool {
        self.0.is_reading.load(Ordering::Relaxed) || self.0.is_writing.load(Ordering::Relaxed)
    }

    /// Enqueues a request for writing. It is sent whether or not the answer is awaited.
    pub(super) fn ask(&self, command: &[Bytes], expects: Expects) -> Result<oneshot::Receiver<Answer>, Unanswered> {
        let answer = self.queue().add(command, expects)?;
        self.0.more.notify_one();
        Ok(answer)
    }

    /// Unsubscribes from sharded channels.
    ///
    /// Completes when the server has processed that, whether or not it reports errors.
    pub(super) fn leave(&self, channels: &[Bytes]) -> Result<oneshot::Receiver<Answer>, Unanswered> {
        let mut queue = self.queue();
        queue.check(1)?;
        for channel in channels {
            // One command per channel: the server rejects channels of different slots together.
            queue.encode(&["SUNSUBSCRIBE".into(), channel.clone()]);
        }
        let token = Bytes::from(format!("left {}", queue.encoded));
        let expects = Expects::Pong { token: token.clone(), channels: channels.to_vec() };
        let answer = queue.add(&["PING".into(), token], expects);
        drop(queue);
        self.0.more.notify_one();
        answer
    }

    /// Enqueues several requests for writing with no other request between them.
    pub(super) fn ask_together(&self, commands: &[WireCommand]) -> Result<Vec<oneshot::Receiver<Answer>>, Unanswered> {
        let mut queue = self.queue();
        queue.check(commands.len())?;
        let answers = commands.iter().map(|command| queue.add(command, Expects::Reply)).collect();
        drop(queue);
        self.0.more.notify_one();
        answers
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Takes the bytes to write; `None` if there are none.
    ///
    /// While they are held, the buffer cannot reuse their space.
    fn outgoing(&self) -> Option<BytesMut> {
        let mut queue = self.queue();
        let bytes = (!queue.outgoing.is_empty()).then(|| queue.outgoing.split());
        if queue.outgoing.capacity() > KEPT {
            queue.outgoing = BytesMut::new();
        }
        bytes
    }

    /// Ends the connection and answers all outstanding requests.
    fn finish(&self, why: String) {
        let mut queue = self.queue();
        queue.ended.get_or_insert(why);
        let (waiting, written) = (std::mem::take(&mut queue.waiting), self.0.written.load(Ordering::Relaxed));
        queue.outgoing = BytesMut::new();
        drop(queue);
        for Waiting { end, answer, .. } in waiting {
            let why = if end > written { Unanswered::NotWritten } else { Unanswered::Lost };
            let _ = answer.send(Err(why));
        }
        self.0.is_finished.store(true, Ordering::Release);
        self.0.finished.notify_waiters();
    }

    /// Passes each frame to its recipient.
    fn received(
        &self,
        frames: &mut Vec<Frame>,
        answered: &mut Vec<(oneshot::Sender<Answer>, Reply)>,
        messages: &mpsc::UnboundedSender<Push>,
    ) -> Result<(), String> {
        let mut queue = self.queue();
        let done = frames.drain(..).try_for_each(|frame| {
            let (waiting, reply) = match queue.push(frame) {
                Ok(parts) => match sort(parts, &mut queue.waiting)? {
                    Pushed::Message(message) => {
                        let _ = messages.send(message);
                        return Ok(());
                    }
                    Pushed::Nothing => return Ok(()),
                    Pushed::Confirmed(waiting) => (waiting, Reply::Nil),
                },
                Err(reply) => match queue.waiting.front().map(|first| first.is_answered_by(&reply)) {
                    Some(Some(true)) => match queue.waiting.pop_front() {
                        Some(waiting) => (waiting, reply),
                        None => return Ok(()),
                    },
                    Some(Some(false)) => return Ok(()),
                    Some(None) => return Err(NO_PROTOCOL.into()),
                    None => return Err(unasked(reply)),
                },
            };
            answered.push((waiting.answer, reply));
            Ok(())
        });
        drop(queue);
        for (answer, reply) in answered.drain(..) {
            // The receiver may have been dropped.
            let _ = answer.send(Ok(reply));
        }
        done
    }
}

impl Queue {
    /// Checks that `count` more requests can be enqueued.
    fn check(&self, count: usize) -> Result<(), Unanswered> {
        match () {
            () if self.ended.is_some() => Err(Unanswered::NotWritten),
            () if self.waiting.len() + count > LONGEST_QUEUE => Err(Unanswered::Full),
            () => Ok(()),
        }
    }

    fn add(&mut self, command: &[Bytes], expects: Expects) -> Result<oneshot::Receiver<Answer>, Unanswered> {
        self.check(1)?;
        self.encode(command);
        self.has_subscriptions |= !matches!(expects, Expects::Reply);
        let (answer, answered) = oneshot::channel();
        self.waiting.push_back(Waiting { end: self.encoded, expects, answer });
        Ok(answered)
    }

    fn encode(&mut self, command: &[Bytes]) {
        let before = self.outgoing.len();
        encode(&mut self.outgoing, command);
        self.encoded += (self.outgoing.len() - before) as u64;
    }

    /// Returns the parts of a push; any other frame is returned as a reply.
    fn push(&self, frame: Frame) -> Result<Vec<Reply>, Reply> {
        match frame {
            Frame::Push(parts) => Ok(parts),
            Frame::Reply(Reply::Array(parts)) if self.has_subscriptions && is_push(&parts) => Ok(parts),
            Frame::Reply(reply) => Err(reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    /// Returns a connection, the server's end of it, and the receiver of its messages.
    fn connected(is_resp2: bool, room: usize) -> (Pipeline, DuplexStream, mpsc::UnboundedReceiver<Push>) {
        let (near, far) = tokio::io::duplex(room);
        let (messages, pushes) = mpsc::unbounded_channel();
        let told = Outputs { silence: Arc::default(), clock: Clock::runtime(), messages, is_socket: true };
        (Pipeline::start(Box::new(near), is_resp2, told), far, pushes)
    }

    fn get(pipeline: &Pipeline) -> oneshot::Receiver<Answer> {
        pipeline.ask(&["GET".into(), "k".into()], Expects::Reply).unwrap()
    }

    fn subscribe(pipeline: &Pipeline, command: &'static str, channels: &[&'static str]) -> oneshot::Receiver<Answer> {
        let channels: Vec<_> = channels.iter().map(|channel| Bytes::from_static(channel.as_bytes())).collect();
        let words: Vec<_> = std::iter::once(command.into()).chain(channels.iter().cloned()).collect();
        pipeline.ask(&words, Expects::Confirmations(command, channels)).unwrap()
    }

    fn text(text: &'static str) -> Reply {
        Reply::Bytes(text.into())
    }

    /// An array as a server sends it; a push if `sign` is `>`.
    fn list(sign: char, words: &[&str]) -> String {
        let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("{sign}{}\r\n{words}", words.matches('$').count())
    }

    async fn say(server: &mut DuplexStream, what: &str) {
        server.write_all(what.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_requests_whoever_waits() {
        let (pipeline, mut server, _messages) = connected(false, 1024);
        let (first, second, third) = (get(&pipeline), get(&pipeline), get(&pipeline));
        drop(second);
        let mut asked = vec![0; 3 * b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len()];
        server.read_exact(&mut asked).await.unwrap();
        say(&mut server, "$1\r\na\r\n$1\r\nb").await;
        assert_eq!(first.await.unwrap(), Ok(text("a")));
        say(&mut server, "\r\n*3\r\n+message\r\n+c\r\n+d\r\n").await;
        assert_eq!(third.await.unwrap(), Ok(Reply::Array(vec![text("message"), text("c"), text("d")])));
    }

    #[tokio::test]
    async fn only_what_was_written_whole_may_have_been_carried_out() {
        // The buffer holds one request and a part of the next.
        let (pipeline, server, _messages) = connected(false, 32);
        let (first, second, third) = (get(&pipeline), get(&pipeline), get(&pipeline));
        while !pipeline.is_midway() {
            tokio::task::yield_now().await;
        }
        drop(server);
        assert_eq!(first.await.unwrap(), Err(Unanswered::Lost));
        assert_eq!(second.await.unwrap(), Err(Unanswered::NotWritten));
        assert_eq!(third.await.unwrap(), Err(Unanswered::NotWritten));
        assert_eq!(pipeline.lost().await, CLOSED);
        assert_eq!(pipeline.ask(&["GET".into()], Expects::Reply).err(), Some(Unanswered::NotWritten));
    }

    #[tokio::test]
    async fn a_subscription_is_answered_when_all_of_it_is_confirmed() {
        for (is_resp2, sign) in [(true, '*'), (false, '>')] {
            let (pipeline, mut server, mut messages) = connected(is_resp2, 1024);
            let mut both = subscribe(&pipeline, "subscribe", &["a", "b"]);
            say(&mut server, &list(sign, &["subscribe", "a", "1"])).await;
            say(&mut server, &list(sign, &["message", "a", "early"])).await;
            let message = Push::Message { channel: "a".into(), payload: "early".into() };
            assert_eq!(messages.recv().await, Some(message));
            assert!(both.try_recv().is_err(), "one is missing");
            say(&mut server, &list(sign, &["subscribe", "b", "2"])).await;
            assert_eq!(both.await.unwrap(), Ok(Reply::Nil));
            // An error answers the command that caused it.
            let (denied, left) =
                (subscribe(&pipeline, "subscribe", &["c"]), subscribe(&pipeline, "unsubscribe", &["a"]));
            say(&mut server, "-NOPERM no\r\n").await;
            say(&mut server, &list(sign, &["unsubscribe", "a", "1"])).await;
            assert!(matches!(denied.await.unwrap(), Ok(Reply::Error(_))));
            assert_eq!(left.await.unwrap(), Ok(Reply::Nil));
        }
    }

    #[tokio::test]
    async fn a_subscription_that_the_server_ends_answers_nobody() {
        let (pipeline, mut server, mut messages) = connected(false, 1024);
        let joined = subscribe(&pipeline, "ssubscribe", &["a"]);
        let asked = get(&pipeline);
        say(&mut server, &list('>', &["ssubscribe", "a", "1"])).await;
        say(&mut server, &list('>', &["sunsubscribe", "a", "0"])).await;
        say(&mut server, "+OK\r\n").await;
        assert_eq!((joined.await.unwrap(), asked.await.unwrap()), (Ok(Reply::Nil), Ok(text("OK"))));
        assert_eq!(messages.recv().await, Some(Push::Lost { channel: "a".into() }));
    }

    #[tokio::test]
    async fn who_leaves_a_channel_whose_slot_has_moved_takes_no_answer_of_others() {
        let (pipeline, mut server, mut messages) = connected(false, 1024);
        let joined = subscribe(&pipeline, "ssubscribe", &["a"]);
        let left = pipeline.leave(&["a".into()]).unwrap();
        let other = subscribe(&pipeline, "ssubscribe", &["c"]);
        let mut token = String::new();
        while !token.contains("PING") {
            token.push(char::from(server.read_u8().await.unwrap()));
        }
        server.read_exact(&mut [0; 6]).await.unwrap();
        let mut token = String::new();
        while !token.ends_with("\r\n") {
            token.push(char::from(server.read_u8().await.unwrap()));
        }
        say(&mut server, &list('>', &["ssubscribe", "a", "1"])).await;
        // First on the server's own initiative, then as the answer to the command.
        say(&mut server, &list('>', &["sunsubscribe", "a", "0"])).await;
        say(&mut server, "-MOVED 7 127.0.0.1:1\r\n").await;
        say(&mut server, &format!("+{token}")).await;
        say(&mut server, &list('>', &["ssubscribe", "c", "1"])).await;
        assert_eq!(joined.await.unwrap(), Ok(Reply::Nil));
        assert!(left.await.unwrap().is_ok());
        assert_eq!(other.await.unwrap(), Ok(Reply::Nil));
        assert!(messages.try_recv().is_err(), "nobody wants it any more");
    }

    #[tokio::test]
    async fn by_resp2_a_list_is_a_message_only_where_something_is_subscribed() {
        let (pipeline, mut server, _messages) = connected(true, 1024);
        let asked = get(&pipeline);
        say(&mut server, &list('*', &["message", "a", "b"])).await;
        assert_eq!(asked.await.unwrap(), Ok(Reply::Array(vec![text("message"), text("a"), text("b")])));
    }

    #[tokio::test]
    async fn what_a_server_says_unasked_is_why_it_ends() {
        let (pipeline, mut server, _messages) = connected(false, 1024);
        say(&mut server, "-ERR max number of clients reached\r\n").await;
        assert_eq!(pipeline.lost().await, "ERR max number of clients reached");
        let (pipeline, mut server, _messages) = connected(false, 1024);
        let asked = get(&pipeline);
        server.read_u8().await.unwrap();
        say(&mut server, "HTTP/1.1 400 Bad Request\r\n").await;
        assert_eq!(asked.await.unwrap(), Err(Unanswered::Lost));
        assert_eq!(pipeline.lost().await, NO_PROTOCOL);
    }

    #[tokio::test]
    async fn who_waits_is_told_when_the_task_is_aborted() {
        let (near, _server) = tokio::io::duplex(1024);
        let told = Outputs {
            silence: Arc::default(),
            clock: Clock::runtime(),
            messages: mpsc::unbounded_channel().0,
            is_socket: true,
        };
        let pipeline = Pipeline::start(Box::new(near), false, told);
        let asked = get(&pipeline);
        pipeline.abort();
        assert_eq!(asked.await.unwrap(), Err(Unanswered::NotWritten));
        assert_eq!(pipeline.lost().await, CLOSED);
    }

    #[tokio::test]
    async fn no_more_requests_wait_than_there_is_room_for() {
        let (pipeline, _server, _messages) = connected(false, 1024);
        let asked: Vec<_> = (0..LONGEST_QUEUE).map(|_| get(&pipeline)).collect();
        assert_eq!(pipeline.ask(&["GET".into()], Expects::Reply).err(), Some(Unanswered::Full));
        assert_eq!(asked.len(), LONGEST_QUEUE);
    }
}
