//! Transport over one connection: each request is queued as bytes, written, and answered.
//!
//! Requests are written in the order in which they were queued, and answered in that order. Callers
//! encode their requests. One task per connection writes the encoded bytes, reads the replies, and
//! passes each reply to the oldest outstanding request. Messages and subscription confirmations may
//! arrive between replies; `pushes` distinguishes them from replies.

mod end;
mod pushes;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use self::end::Finish;
pub(super) use self::end::Unanswered;
pub(super) use self::pushes::Expects;
use self::pushes::{Pushed, sort, unasked};
use super::resp::{Frame, NoProtocol, Scan, decode, encode};
use super::server_text::{is_read_only, wants_login};
use super::silence::{SentRequest, Silence};
use super::{Connection, WireCommand};
use crate::clock::Clock;
use crate::config::network::Stream;
use crate::connection::trouble::{CLOSED, LATE_ANSWER, NO_PROTOCOL};
use crate::connection::{Push, Reply};
use crate::error::ServerError;
use crate::sync::Mutex;

/// Maximum number of outstanding requests: 65,536. Bursts of this client stay below this number,
/// and a full queue fits into memory.
const LONGEST_QUEUE: usize = 65_536;

/// Maximum capacity of a buffer that is reused: 1 MiB. A larger buffer is freed after use.
const KEPT: usize = 1 << 20;

/// Size of the read buffer.
const READ: usize = 16 * 1024;

/// After this number of reads the task yields to the runtime. The yield wakes another thread, and
/// the operating system chooses processors for the threads again. Without the yield, a process with
/// one task kept an unfavorable choice, and was 5 % slower. A yield after every 16 reads made
/// contended locks 15 % slower.
const READS: usize = 1024;

/// How long to read the server's last bytes after a failed write: 10 ms.
const READ_GRACE: Duration = Duration::from_millis(10);

/// Longest wait for a reply while a long reply or request is transferred: 20 response timeouts, a
/// minute by default. That is enough for the largest value (512 MB) at 9 MB/s.
const LONGEST_TRANSFER: u32 = 20;

pub(super) type Answer = Result<Reply, Unanswered>;

/// Resources that the task of a connection uses besides the stream.
#[derive(Clone)]
pub(super) struct Outputs {
    pub(super) silence: Arc<Silence>,
    pub(super) clock: Clock,
    /// Receives the messages of subscriptions.
    pub(super) messages: mpsc::UnboundedSender<Push>,
    /// Whether the stream is a socket of the operating system. If so, a failed write has sent
    /// nothing.
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
    /// Number of bytes that may have been sent, because a lower layer has accepted them.
    written: AtomicU64,
    /// Whether a request is partly written.
    is_writing: AtomicBool,
    /// Whether a reply has partly arrived.
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
    /// Whether the connection has had a subscription.
    has_subscriptions: bool,
    /// Why the connection has ended.
    ended: Option<String>,
}

struct Waiting {
    /// The value of `Queue::encoded` just after this request was encoded.
    end: u64,
    expects: Expects,
    answer: oneshot::Sender<Answer>,
}

impl Connection {
    /// Sends one command. Commands are sent in the order in which their futures are first polled.
    ///
    /// If a credential provider supplies the password, a command that was refused for a missing
    /// login is sent again after a login.
    pub(crate) async fn send(&self, command: WireCommand) -> Result<Reply, ServerError> {
        self.send_for(command, Expects::Reply).await
    }

    pub(super) async fn send_for(&self, command: WireCommand, expects: Expects) -> Result<Reply, ServerError> {
        let Some(login) = &self.login else { return self.send_once(&command, expects).await };
        let count = login.count();
        match self.send_once(&command, expects.clone()).await {
            Err(refused) if wants_login(&refused) => {
                let again = async {
                    login.again(count, self).await?;
                    self.send_once(&command, expects).await
                };
                // The retry is boxed because it is rare: unboxed, it would enlarge the future of
                // every call.
                Box::pin(again).await
            }
            answer => answer,
        }
    }

    pub(super) async fn send_once(&self, command: &[Bytes], expects: Expects) -> Result<Reply, ServerError> {
        let (pipeline, outstanding) = (self.pipeline(), self.silence.request_sent(self.target.clock.now()));
        let receiver = pipeline.enqueue(command, expects);
        self.answer(&pipeline, receiver, outstanding).await
    }

    /// Waits for a reply until the response timeout, or longer while a long reply or request is
    /// being transferred on this connection.
    pub(super) async fn answer(
        &self,
        pipeline: &Pipeline,
        receiver: Result<oneshot::Receiver<Answer>, Unanswered>,
        outstanding: SentRequest<'_>,
    ) -> Result<Reply, ServerError> {
        let mut answer = receiver.map_err(|why| self.unanswered(pipeline, why))?;
        let (mut waited, limit) = (1, self.timeout());
        let answered = loop {
            match timeout(limit, &mut answer).await {
                Ok(answered) => break answered.unwrap_or(Err(Unanswered::Lost)),
                Err(_) if pipeline.is_midway() && self.silent_for() < limit && waited < LONGEST_TRANSFER => {}
                Err(_) => {
                    self.doubt.notify_one();
                    return Err(ServerError::unknown(format!("{LATE_ANSWER} (at {})", self.target.place)));
                }
            }
            waited += 1;
        };
        drop(outstanding);
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
}

impl Pipeline {
    /// Starts the task that drives a stream.
    ///
    /// When the connection ends, the task ends, and vice versa.
    pub(super) fn start(stream: Box<dyn Stream>, is_resp2: bool, outputs: Outputs) -> Pipeline {
        let pipeline = Pipeline::new(is_resp2, None);
        // `Finish` answers the requests even if the task is aborted before its first poll.
        let task = tokio::spawn(drive(Finish(pipeline.clone()), stream, outputs));
        let _ = pipeline.0.task.set(task.abort_handle());
        pipeline
    }

    /// Enqueues a request for writing. It is sent whether or not the answer is awaited.
    pub(super) fn enqueue(&self, command: &[Bytes], expects: Expects) -> Result<oneshot::Receiver<Answer>, Unanswered> {
        let answer = self.0.queue.lock().add(command, expects)?;
        self.0.more.notify_one();
        Ok(answer)
    }

    /// Enqueues several requests for writing with no other request between them.
    pub(super) fn enqueue_together(
        &self,
        commands: &[WireCommand],
    ) -> Result<Vec<oneshot::Receiver<Answer>>, Unanswered> {
        let mut queue = self.0.queue.lock();
        queue.check(commands.len())?;
        let answers = commands.iter().map(|command| queue.add(command, Expects::Reply)).collect();
        drop(queue);
        self.0.more.notify_one();
        answers
    }

    /// Takes the bytes to write; `None` if there are none.
    ///
    /// While the caller holds the bytes, the queue's buffer cannot reuse their space.
    fn outgoing(&self) -> Option<BytesMut> {
        let mut queue = self.0.queue.lock();
        let bytes = (!queue.outgoing.is_empty()).then(|| queue.outgoing.split());
        if queue.outgoing.capacity() > KEPT {
            queue.outgoing = BytesMut::new();
        }
        bytes
    }

    /// Passes each frame to its recipient.
    fn received(
        &self,
        frames: &mut Vec<Frame>,
        answered: &mut Vec<(oneshot::Sender<Answer>, Reply)>,
        messages: &mpsc::UnboundedSender<Push>,
    ) -> Result<(), String> {
        let mut queue = self.0.queue.lock();
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
}

async fn drive(finish: Finish, stream: Box<dyn Stream>, outputs: Outputs) {
    let (reader, writer) = tokio::io::split(stream);
    let mut reading = std::pin::pin!(read(&finish.0, reader, &outputs));
    let why = tokio::select! {
        // Writing is polled first, because reading may continue for a long time.
        biased;
        why = write(&finish.0, writer, &outputs) => match tokio::time::timeout(READ_GRACE, reading).await {
            Ok(read_end) => read_end,
            Err(_) => why,
        },
        why = &mut reading => why,
    };
    finish.0.finish(why);
}

/// Writes until the connection ends; returns the reason.
async fn write(pipeline: &Pipeline, mut writer: WriteHalf<Box<dyn Stream>>, outputs: &Outputs) -> String {
    let shared = &pipeline.0;
    loop {
        let Some(mut bytes) = pipeline.outgoing() else {
            shared.more.notified().await;
            continue;
        };
        let mut had_to_wait = false;
        while bytes.has_remaining() {
            match writer.write_buf(&mut bytes).await {
                Ok(0) => return CLOSED.into(),
                Ok(count) => {
                    shared.written.fetch_add(count as u64, Ordering::Relaxed);
                    crate::count::sent(count);
                    shared.is_writing.store(bytes.has_remaining(), Ordering::Relaxed);
                    if had_to_wait {
                        // The server has accepted more data, so it is not silent.
                        outputs.silence.received_part(outputs.clock.now());
                    }
                    had_to_wait = true;
                }
                Err(error) => {
                    if !outputs.is_socket {
                        // A layer above the socket, such as TLS, may have sent some of these bytes.
                        shared.written.fetch_add(bytes.remaining() as u64, Ordering::Relaxed);
                    }
                    return format!("{error:?}");
                }
            }
        }
        if let Err(error) = writer.flush().await {
            return format!("{error:?}");
        }
    }
}

/// Reads until the connection ends; returns the reason.
async fn read(pipeline: &Pipeline, mut reader: ReadHalf<Box<dyn Stream>>, outputs: &Outputs) -> String {
    let mut buffer = BytesMut::with_capacity(READ);
    let (mut frames, mut answered, mut scan, mut reads) = (Vec::new(), Vec::new(), None::<Scan>, 0_usize);
    loop {
        if buffer.capacity() - buffer.len() < READ / 8 {
            buffer.reserve(READ);
        }
        let bytes = match reader.read_buf(&mut buffer).await {
            Ok(0) => return CLOSED.into(),
            Ok(bytes) => bytes,
            Err(error) => return format!("{error:?}"),
        };
        crate::count::received(bytes);
        let is_whole = scan.as_mut().is_none_or(|scan| scan.is_whole(&buffer));
        let mut broken = None;
        if is_whole {
            while let Some(decoded) = decode(&mut buffer, pipeline.is_resp2()).transpose() {
                match decoded {
                    Ok(frame) => frames.push(frame),
                    Err(NoProtocol) => {
                        broken = Some(NO_PROTOCOL.to_owned());
                        break;
                    }
                }
            }
        }
        let (is_reading, now) = (!buffer.is_empty(), outputs.clock.now());
        pipeline.0.is_reading.store(is_reading, Ordering::Relaxed);
        if frames.is_empty() {
            outputs.silence.received_part(now);
        } else {
            outputs.silence.received(now);
        }
        if is_whole {
            scan = is_reading.then(Scan::new);
        }
        if let Some(why) = pipeline.received(&mut frames, &mut answered, &outputs.messages).err().or(broken) {
            return why;
        }
        if !is_reading && buffer.capacity() > KEPT {
            buffer = BytesMut::with_capacity(READ);
        }
        reads += 1;
        if reads.is_multiple_of(READS) {
            tokio::task::yield_now().await;
        }
    }
}
