//! Free ports that stay free.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

/// The range of ports: below the kernel's range for outgoing connections (from 32768 on Linux,
/// 49152 elsewhere). So a server that is down for a restart cannot lose its port to a connection.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// How many ports are tried. With half of the range taken, all of them fail once in 10^15 times.
const TRIES: usize = 50;

/// A cluster node's bus port is its port plus this.
const BUS: u16 = 10_000;

/// Returns a loopback address that was free a moment ago, as was its bus port.
pub(crate) fn free_cluster_address() -> io::Result<SocketAddr> {
    // The bus ports must be in the range too.
    let bus_is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port + BUS)).map(drop);
    free_listener_in(RANGE.start..RANGE.end - BUS, bus_is_free).and_then(|listener| listener.local_addr())
}

/// Returns a loopback address that was free a moment ago.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    free_listener().and_then(|listener| listener.local_addr())
}

/// A listener on a loopback port chosen at random.
pub(crate) fn free_listener() -> io::Result<TcpListener> {
    free_listener_in(RANGE, |_| Ok(()))
}

/// A listener on a port of `range` that passes `check`.
fn free_listener_in(range: std::ops::Range<u16>, check: impl Fn(u16) -> io::Result<()>) -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let port = fastrand::u16(range.clone());
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).and_then(|listener| check(port).map(|()| listener)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
