//! Free ports that stay free.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

/// Where ports are taken from: below the range from which the kernel takes the ports of outgoing connections (from
/// 32768 on Linux, 49152 elsewhere). A server that is down for a restart thus cannot lose its port to a connection.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// How many ports are tried. With half of the range taken, all of them fail once in 10^15 times.
const TRIES: usize = 50;

/// A loopback address on which nobody listened a moment ago.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    free_listener().and_then(|listener| listener.local_addr())
}

/// A listener on a loopback port chosen at random.
pub(crate) fn free_listener() -> io::Result<TcpListener> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(RANGE))) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
