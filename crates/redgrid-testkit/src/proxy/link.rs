//! One connection through a proxy.
//!
//! A connection has four loops: one reads requests and decides their action, one forwards them; two
//! do the same for replies. Queues separate reading from forwarding. A delay therefore does not
//! slow down reading, and a held request outlives its client.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use crate::{
    proxy::{
        action::{Action, Direction, Fault},
        replies::{Fate, Incoming, Replies},
        state::Shared,
    },
    resp::{Command, NotResp, take_command, take_reply},
};

/// The state of the client's side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Client {
    Here,
    /// The client closed its sending side; data that it sent is still delivered.
    Closed,
    /// The connection was cut; undelivered data is dropped, except for held requests.
    Cut,
}

/// A request on its way to the server.
struct Request {
    command: Command,
    fate: Fate,
    arrived: Instant,
    held: Option<(u64, oneshot::Sender<()>)>,
}

/// A reply on its way to the client.
struct Reply {
    frame: Bytes,
    arrived: Instant,
}

struct Link {
    shared: Arc<Shared>,
    client: watch::Sender<Client>,
    /// `None` once the server has closed its side.
    replies: Mutex<Option<Replies>>,
}

/// Serves one connection until both ends are closed and none of its requests is held.
pub(crate) async fn serve(client: TcpStream, server: TcpStream, shared: Arc<Shared>) {
    // Small packets are sent without delay. If this option cannot be set, they only arrive later.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((client_read, client_write), (server_read, server_write)) = (client.into_split(), server.into_split());
    let (requests, requests_queue) = mpsc::unbounded_channel();
    let (replies, replies_queue) = mpsc::unbounded_channel();
    let mut cuts = shared.cuts.subscribe();
    let link = Link { shared, client: watch::Sender::new(Client::Here), replies: Mutex::new(Some(Replies::default())) };
    link.shared.counts.open.fetch_add(1, Ordering::SeqCst);
    let loops = async {
        tokio::join!(
            link.read_requests(client_read, requests),
            link.write_requests(server_write, requests_queue),
            link.read_replies(server_read, replies),
            link.write_replies(client_write, replies_queue),
        )
    };
    tokio::pin!(loops);
    tokio::select! {
        biased;
        _ = cuts.changed() => {
            link.cut();
            loops.await;
        }
        _ = &mut loops => {}
    }
}

impl Link {
    async fn read_requests(&self, mut from: OwnedReadHalf, queue: mpsc::UnboundedSender<Request>) {
        let mut buffer = BytesMut::new();
        let mut client = self.client.subscribe();
        let ended = loop {
            match take_command(&mut buffer) {
                Ok(Some(command)) => {
                    if !self.judge(command, &queue) {
                        break Client::Cut;
                    }
                    continue;
                }
                Ok(None) => {}
                Err(NotResp) => break Client::Closed,
            }
            tokio::select! {
                biased;
                _ = client.wait_for(|client| *client == Client::Cut) => break Client::Cut,
                read = read_some(&mut from, &mut buffer) => if !matches!(read, Ok(1..)) {
                    break Client::Closed;
                }
            }
        };
        match ended {
            Client::Cut => self.cut(),
            end => self.move_on(end),
        };
        self.shared.counts.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Queues a request. Returns false if the connection must be cut instead.
    fn judge(&self, command: Command, queue: &mpsc::UnboundedSender<Request>) -> bool {
        self.shared.counts.commands.fetch_add(1, Ordering::SeqCst);
        let action = self.shared.decide(&command);
        let fate = match action {
            Action::SwallowReply => Fate::Swallow,
            Action::CutAfterForward => Fate::Cut,
            Action::Forward | Action::Hold => Fate::Deliver,
            Action::CutBefore => return false,
        };
        let held = (action == Action::Hold).then(|| self.shared.hold());
        // If the queue has no receiver, the server is gone, and the client's reading side ends.
        let _ = queue.send(Request { command, fate, arrived: Instant::now(), held });
        true
    }

    async fn write_requests(&self, mut to: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Request>) {
        let mut releases = self.shared.releases.subscribe();
        let mut lost = false;
        while let Some(Request { command, fate, arrived, held }) = queue.recv().await {
            let answered = match held {
                Some((held_at, answered)) => {
                    // The sender lives in `shared`, so only the release ends this wait.
                    let _ = releases.wait_for(|releases| *releases > held_at).await;
                    Some(answered)
                }
                None => None,
            };
            lost = lost || !self.passage(Direction::ToServer, arrived, answered.is_some()).await;
            if lost || answered.is_none() && *self.client.borrow() == Client::Cut {
                continue;
            }
            let server_is_there = self.replies().as_mut().map(|replies| replies.sent(&command.parts, fate, answered));
            if server_is_there.is_none() || to.write_all(&command.raw).await.is_err() {
                // The reading side closes the client's connection. The remaining requests have no
                // destination.
                return;
            }
        }
        if lost || !self.passage(Direction::ToServer, Instant::now(), false).await {
            // The end of the stream is lost too: the server's side stays open until the proxy ends.
            std::future::pending::<()>().await;
        }
    }

    async fn read_replies(&self, mut from: OwnedReadHalf, queue: mpsc::UnboundedSender<Reply>) {
        let mut buffer = BytesMut::new();
        let mut muted = false;
        loop {
            match take_reply(&mut buffer) {
                Ok(Some(frame)) => {
                    let passes = match self.replies().as_mut().map(|replies| replies.received(&frame)) {
                        Some(Incoming::Message) => self.let_message_through(),
                        Some(Incoming::Reply(fate)) => {
                            muted |= self.mutes(fate);
                            true
                        }
                        None => true,
                    };
                    if passes && !muted {
                        // If the queue has no receiver, the client is gone.
                        let _ = queue.send(Reply { frame, arrived: Instant::now() });
                    }
                }
                Ok(None) if matches!(read_some(&mut from, &mut buffer).await, Ok(1..)) => {}
                Ok(None) | Err(NotResp) => break,
            }
        }
        // Unanswered requests will never be answered; this notifies their waiters.
        *self.replies() = None;
        if muted {
            // The end of the server's stream is hidden too: the client's side stays open until the
            // client closes it or it is cut.
            let _ = self.client.subscribe().wait_for(|client| *client > Client::Here).await;
        }
    }

    fn let_message_through(&self) -> bool {
        let drops = self.shared.faults.borrow().drop_publishes;
        if drops {
            self.shared.counts.publishes_dropped.fetch_add(1, Ordering::SeqCst);
        }
        !drops
    }

    /// Counts a reply and performs the action of its request. Returns true if the client receives
    /// nothing from this reply on.
    fn mutes(&self, fate: Fate) -> bool {
        let counts = &self.shared.counts;
        counts.replies.fetch_add(1, Ordering::SeqCst);
        match fate {
            Fate::Deliver => return false,
            Fate::Swallow => {
                counts.swallowed.fetch_add(1, Ordering::SeqCst);
            }
            Fate::Cut => {
                self.cut();
            }
        }
        true
    }

    async fn write_replies(&self, mut to: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Reply>) {
        let mut client = self.client.subscribe();
        let deliver = async {
            let mut lost = false;
            while let Some(Reply { frame, arrived }) = queue.recv().await {
                lost = lost || !self.passage(Direction::ToClient, arrived, false).await;
                if !lost && to.write_all(&frame).await.is_err() {
                    // The client is gone. The queue is dropped; further replies are read and
                    // ignored.
                    break;
                }
            }
            // A fault that keeps or loses bytes also applies to the end of the stream.
            if lost || !self.passage(Direction::ToClient, Instant::now(), false).await {
                let mut client = self.client.subscribe();
                let _ = client.wait_for(|client| *client > Client::Here).await;
            }
        };
        tokio::select! {
            biased;
            _ = client.wait_for(|client| *client == Client::Cut) => {}
            () = deliver => {
                self.move_on(Client::Cut);
            }
        }
    }

    /// Waits until the faults let data pass that arrived at `arrived`; `false` if a fault drops the
    /// data. On a cut connection only held requests wait.
    async fn passage(&self, direction: Direction, arrived: Instant, held: bool) -> bool {
        let mut faults = self.shared.faults.subscribe();
        let mut client = self.client.subscribe();
        loop {
            let fault = faults.borrow_and_update().towards(direction);
            let until = match fault {
                Fault::Pass => return true,
                Fault::BlackHole => return false,
                Fault::Delay(by) => Some(arrived + by),
                Fault::Stall => None,
            };
            let due = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => return true,
                _ = faults.changed() => {}
                _ = client.wait_for(|client| *client == Client::Cut), if !held => return true,
            }
        }
    }

    /// Cuts the client's connection. Returns false if it was already cut.
    fn cut(&self) -> bool {
        let cuts = self.move_on(Client::Cut);
        if cuts {
            self.shared.counts.cut.fetch_add(1, Ordering::SeqCst);
        }
        cuts
    }

    /// Records a later state of the client's side; `false` if the state is already as late as `to`.
    fn move_on(&self, to: Client) -> bool {
        self.client.send_if_modified(|client| {
            let moves = *client < to;
            *client = (*client).max(to);
            moves
        })
    }

    fn replies(&self) -> MutexGuard<'_, Option<Replies>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_some(from: &mut OwnedReadHalf, buffer: &mut BytesMut) -> io::Result<usize> {
    buffer.reserve(READ);
    from.read_buf(buffer).await
}

/// The maximum of one read: 16 KiB, several hundred small commands.
const READ: usize = 16 * 1024;
