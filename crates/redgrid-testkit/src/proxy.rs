//! A TCP proxy in front of a server, with faults that can be changed while it runs.

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
    port::ReservedAddress,
    proxy::{
        action::{Action, Direction, Fault},
        state::Shared,
    },
    server::RedisServer,
};

/// A loopback TCP proxy that understands enough of the Redis protocol to lose, hold or cut single
/// commands.
///
/// All settings can be changed at any time, and apply to existing and new connections. The proxy
/// runs on the Tokio runtime that started it. When the value is dropped, the proxy ends and closes
/// all its connections.
///
/// TLS and `CLIENT REPLY` are not supported; the latter breaks the assignment of replies to
/// requests.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_testkit::{Action, Proxy, RedisServer};
///
/// let server = RedisServer::start().await?;
/// let proxy = Proxy::to(&server).await?;
/// proxy.next(1, "SET", Action::SwallowReply); // executed, and no client is notified
/// let url = server.url_via(proxy.addr());
/// # let _ = url; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    _address: ReservedAddress,
    shared: Arc<Shared>,
    links: Links,
    target: Arc<Mutex<SocketAddr>>,
    door: tokio::sync::Mutex<Door>,
}

type Links = Arc<Mutex<JoinSet<()>>>;

/// Whether new connections are accepted.
#[derive(Debug)]
enum Door {
    Open(JoinHandle<()>),
    /// The address is bound but not listening: connections are refused, and the port stays
    /// reserved.
    Shut(Option<TcpSocket>),
}

impl Proxy {
    /// Starts a proxy in front of `server`. The client's URL is `server.url_via(proxy.addr())`.
    ///
    /// # Errors
    ///
    /// No loopback port is available.
    pub async fn to(server: &RedisServer) -> io::Result<Self> {
        Self::start(server.addr()).await
    }

    /// Starts a proxy in front of any address.
    ///
    /// # Errors
    ///
    /// No loopback port is available.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let (listener, address) = ReservedAddress::listener()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = address.addr();
        let (shared, links, target) = (Shared::new(), Links::default(), Arc::new(Mutex::new(target)));
        let door = open(listener, Arc::clone(&shared), Arc::clone(&links), Arc::clone(&target));
        Ok(Self { addr, _address: address, shared, links, target, door: tokio::sync::Mutex::new(door) })
    }

    /// Returns the address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns `redis://127.0.0.1:port`, without credentials; see [`RedisServer::url_via`].
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Connects new client connections to another server, as after a failover. Existing ones stay.
    pub fn redirect(&self, target: SocketAddr) {
        *lock(&self.target) = target;
    }

    /// Sets a fault for all traffic in one direction.
    pub fn set(&self, direction: Direction, fault: Fault) {
        self.shared.faults.send_modify(|faults| *faults.towards_mut(direction) = fault);
    }

    /// Sets a fault for all traffic in both directions, as [`set`](Self::set) does.
    pub fn set_both(&self, fault: Fault) {
        self.set(Direction::ToServer, fault);
        self.set(Direction::ToClient, fault);
    }

    /// Drops messages published to subscribers. Replies and confirmations of subscriptions still
    /// pass.
    pub fn drop_publishes(&self, on: bool) {
        self.shared.faults.send_modify(|faults| faults.drop_publishes = on);
    }

    /// Applies `action` to the next `count` requests with `needle` in their name or arguments,
    /// compared byte by byte and case-sensitively. Rules are tried in the order of these calls,
    /// before the hook of [`on_request`](Self::on_request).
    pub fn next(&self, count: usize, needle: impl AsRef<[u8]>, action: Action) {
        self.shared.add_rule(count, Bytes::copy_from_slice(needle.as_ref()), action);
    }

    /// Sets a hook for every request that matches no rule of [`next`](Self::next). It replaces the
    /// previous hook.
    pub fn on_request(&self, hook: impl Fn(&[Bytes]) -> Action + Send + Sync + 'static) {
        self.shared.set_hook(Some(Arc::new(hook)));
    }

    /// Removes every fault, rule and hook. Held requests stay held, and refused connections stay
    /// refused.
    pub fn heal(&self) {
        self.shared.clear();
        self.shared.faults.send_modify(|faults| *faults = state::Faults::default());
    }

    /// Cuts all existing connections. Undelivered data is lost, except for held requests; new
    /// connections are accepted.
    pub fn cut_all(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Refuses new connections, as if no process listened on the port. Existing connections stay.
    ///
    /// # Errors
    ///
    /// The port could not be kept reserved. New connections are refused, and
    /// [`accept_connections`](Self::accept_connections) may fail.
    pub async fn refuse_connections(&self) -> io::Result<()> {
        let mut door = self.door.lock().await;
        if let Door::Open(accepting) = &mut *door {
            accepting.abort();
            // The awaited task ends by cancellation. Awaiting it ensures that its listener is
            // closed.
            let _ = accepting.await;
            *door = Door::Shut(None);
            *door = Door::Shut(Some(bind_again(self.addr).await?));
        }
        Ok(())
    }

    /// Accepts new connections again.
    ///
    /// # Errors
    ///
    /// Another process listens on the port now. New connections are refused.
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

    /// Sends every held request to the server, and waits for the replies. Returns the number of
    /// answered requests. The others stay unanswered because the server had closed their
    /// connection.
    ///
    /// # Cancel safety
    ///
    /// The requests are sent at the first poll; dropping the future only stops waiting for the
    /// replies.
    pub async fn release_held(&self) -> usize {
        let mut answered = 0;
        for held in self.shared.release() {
            answered += usize::from(held.await.is_ok());
        }
        answered
    }

    /// Returns the counters.
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

/// Counters of a [`Proxy`] since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyCounts {
    /// Accepted connections.
    pub accepted: u64,
    /// Connections that are open on the client's side.
    pub open: u64,
    /// Connections cut by the proxy.
    pub cut: u64,
    /// Requests read from clients, whatever happened to them.
    pub commands: u64,
    /// Replies read from the server, whatever happened to them; messages are excluded.
    pub replies: u64,
    /// Replies swallowed by [`Action::SwallowReply`]: their requests have been executed.
    pub swallowed: u64,
    /// Requests that are held.
    pub held: u64,
    /// Messages dropped by [`Proxy::drop_publishes`].
    pub publishes_dropped: u64,
}

fn open(listener: TcpListener, shared: Arc<Shared>, links: Links, target: Arc<Mutex<SocketAddr>>) -> Door {
    Door::Open(tokio::spawn(async move {
        // An error of `accept` concerns a single connection that was already closed.
        loop {
            let Ok((client, _)) = listener.accept().await else { continue };
            shared.counts.accepted.fetch_add(1, Ordering::SeqCst);
            let (shared, target) = (Arc::clone(&shared), *lock(&target));
            let mut links = lock(&links);
            while links.try_join_next().is_some() {}
            links.spawn(async move {
                // Without a server, the client's connection is closed.
                if let Ok(server) = TcpStream::connect(target).await {
                    link::serve(client, server, shared).await;
                }
            });
        }
    }))
}

/// Binds the address again once it is free: another process may have got the port for an outgoing
/// connection meanwhile.
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
    // The existing connections still use the address.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long binding a port again is retried.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// Connections waiting to be accepted; the default of the standard library.
const BACKLOG: u32 = 128;
