//! A TCP proxy in front of a server, with faults to switch while it runs.

pub(crate) mod action;
mod link;
mod replies;
mod state;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::{
    port,
    proxy::{
        action::{Action, Direction, Fault},
        state::Shared,
    },
    server::RedisServer,
};

/// A loopback TCP proxy that understands enough of the Redis protocol to lose, hold or cut single commands.
///
/// Everything can be changed while it runs, and holds for the connections there are and for new ones. It runs on the
/// Tokio runtime it was started on, and ends, with all its connections, when it is dropped.
///
/// Not supported are TLS and `CLIENT REPLY`, which unsettles which reply belongs to which request.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_testkit::{Action, Proxy, RedisServer};
///
/// let server = RedisServer::start().await?;
/// let proxy = Proxy::to(&server).await?;
/// proxy.next(1, "SET", Action::SwallowReply); // executed, and nobody hears of it
/// let url = server.url_via(proxy.addr());
/// # let _ = url; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    links: Links,
    target: Arc<Mutex<SocketAddr>>,
    door: tokio::sync::Mutex<Door>,
}

type Links = Arc<Mutex<JoinSet<()>>>;

/// Whether new connections are taken.
#[derive(Debug)]
enum Door {
    Open(JoinHandle<()>),
    /// Bound and not listening: connections are refused, and the port stays ours.
    Shut(Option<TcpSocket>),
}

impl Proxy {
    /// Starts a proxy in front of `server`. The client's URL is `server.url_via(proxy.addr())`.
    ///
    /// # Errors
    ///
    /// No loopback port can be had.
    pub async fn to(server: &RedisServer) -> io::Result<Self> {
        Self::start(server.addr()).await
    }

    /// Starts a proxy in front of any address.
    ///
    /// # Errors
    ///
    /// No loopback port can be had.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = port::free_listener()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let (shared, links, target) = (Shared::new(), Links::default(), Arc::new(Mutex::new(target)));
        let door = open(listener, Arc::clone(&shared), Arc::clone(&links), Arc::clone(&target));
        Ok(Self { addr, shared, links, target, door: tokio::sync::Mutex::new(door) })
    }

    /// Where clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `redis://127.0.0.1:port`, without credentials; see [`RedisServer::url_via`].
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Sends new connections to another address, as after a failover. Those there are stay where they are.
    pub fn redirect(&self, target: SocketAddr) {
        *lock(&self.target) = target;
    }

    /// Sets what happens to all traffic in one direction, until it is set again.
    pub fn set(&self, direction: Direction, fault: Fault) {
        self.shared.faults.send_modify(|faults| *faults.towards_mut(direction) = fault);
    }

    /// [`set`](Self::set) for both directions.
    pub fn set_both(&self, fault: Fault) {
        self.set(Direction::ToServer, fault);
        self.set(Direction::ToClient, fault);
    }

    /// Drops what is published to subscribers, while replies and confirmations go through.
    pub fn drop_publishes(&self, on: bool) {
        self.shared.faults.send_modify(|faults| faults.drop_publishes = on);
    }

    /// Does `action` to the next `count` requests whose name or arguments contain `needle`, which is compared byte by
    /// byte, case included. Rules are tried in the order they were given, before the hook of
    /// [`on_request`](Self::on_request).
    pub fn next(&self, count: usize, needle: impl AsRef<[u8]>, action: Action) {
        self.shared.add_rule(count, Bytes::copy_from_slice(needle.as_ref()), action);
    }

    /// Asks `hook` about every request that no rule of [`next`](Self::next) fits. It replaces the hook before it.
    pub fn on_request(&self, hook: impl Fn(&[Bytes]) -> Action + Send + Sync + 'static) {
        self.shared.set_hook(Some(Arc::new(hook)));
    }

    /// Ends every fault, rule and hook. What is held stays held, and refused connections stay refused.
    pub fn heal(&self) {
        self.shared.clear();
        self.shared.faults.send_modify(|faults| *faults = state::Faults::default());
    }

    /// Cuts all connections there are. What has not reached its end is lost, except for held requests; new connections
    /// are taken.
    pub fn cut_all(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Refuses new connections, as if nobody listened. The connections there are stay.
    ///
    /// # Errors
    ///
    /// The port could not be kept. New connections are refused, and may not be possible again.
    pub async fn refuse_connections(&self) -> io::Result<()> {
        let mut door = self.door.lock().await;
        if let Door::Open(accepting) = &mut *door {
            accepting.abort();
            // It ends by being aborted; what matters is that its listener is gone.
            let _ = accepting.await;
            *door = Door::Shut(None);
            *door = Door::Shut(Some(bind_again(self.addr).await?));
        }
        Ok(())
    }

    /// Takes new connections again.
    ///
    /// # Errors
    ///
    /// Somebody else listens on the port now. New connections are refused.
    pub async fn accept_connections(&self) -> io::Result<()> {
        let mut door = self.door.lock().await;
        if let Door::Shut(socket) = &mut *door {
            let socket = socket.take().map_or_else(|| bind(self.addr), Ok)?;
            let listener = socket.listen(BACKLOG)?;
            let (shared, links, target) = (&self.shared, &self.links, &self.target);
            *door = open(listener, Arc::clone(shared), Arc::clone(links), Arc::clone(target));
        }
        Ok(())
    }

    /// Sends every held request on to the server, and waits for the answers. Returns how many were answered; the others
    /// met a server that had closed their connection.
    ///
    /// # Cancel safety
    ///
    /// The requests go on at the first poll; dropping the future only stops waiting for the answers.
    pub async fn release_held(&self) -> usize {
        let mut answered = 0;
        for held in self.shared.release() {
            answered += usize::from(held.await.is_ok());
        }
        answered
    }

    /// What has happened so far.
    pub fn counts(&self) -> ProxyCounts {
        let counts = &self.shared.counts;
        let now = |count: &AtomicU64| count.load(Ordering::SeqCst);
        ProxyCounts {
            accepted: now(&counts.accepted),
            open: now(&counts.open),
            cut: now(&counts.cut),
            commands: now(&counts.commands),
            replies: now(&counts.replies),
            swallowed: now(&counts.swallowed),
            held: now(&counts.held),
            publishes_dropped: now(&counts.publishes_dropped),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Door::Open(accepting) = self.door.get_mut() {
            accepting.abort();
        }
        lock(&self.links).abort_all();
    }
}

/// What a [`Proxy`] has seen since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyCounts {
    /// Connections taken.
    pub accepted: u64,
    /// Connections open on the client's side now.
    pub open: u64,
    /// Connections cut by the proxy.
    pub cut: u64,
    /// Requests read from clients, whatever became of them.
    pub commands: u64,
    /// Replies read from the server, whatever became of them; messages are not among them.
    pub replies: u64,
    /// Replies swallowed by [`Action::SwallowReply`]: their requests have been executed.
    pub swallowed: u64,
    /// Requests held now.
    pub held: u64,
    /// Messages dropped by [`Proxy::drop_publishes`].
    pub publishes_dropped: u64,
}

fn open(listener: TcpListener, shared: Arc<Shared>, links: Links, target: Arc<Mutex<SocketAddr>>) -> Door {
    Door::Open(tokio::spawn(async move {
        // An error here is about one connection that came and went.
        loop {
            let Ok((client, _)) = listener.accept().await else { continue };
            shared.counts.accepted.fetch_add(1, Ordering::SeqCst);
            let (shared, target) = (Arc::clone(&shared), *lock(&target));
            let mut links = lock(&links);
            while links.try_join_next().is_some() {}
            links.spawn(async move {
                // Without a server the client sees its connection close.
                if let Ok(server) = TcpStream::connect(target).await {
                    link::serve(client, server, shared).await;
                }
            });
        }
    }))
}

/// The same once it is free: somebody may have got the port for a connection of his own in the moment in which nobody had it.
async fn bind_again(addr: SocketAddr) -> io::Result<TcpSocket> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        match bind(addr) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bound => return bound,
        }
    }
}

fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // The connections taken so far still use the address.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long it is tried to have a port again.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// Connections that may wait to be taken; what the standard library asks for.
const BACKLOG: u32 = 128;
