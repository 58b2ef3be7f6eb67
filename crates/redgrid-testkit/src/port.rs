//! Free ports that stay free.

use std::{
    fs::{self, File, OpenOptions},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

/// The range of ports. It is below the kernel's range for outgoing connections (from 32768 on
/// Linux, 49152 elsewhere). An outgoing connection therefore cannot take the port of a server that
/// is down for a restart.
const RANGE: std::ops::Range<u16> = 15_000..32_000;

/// How many ports are tried. If half of the range is taken, all tries fail once in 10^15 cases.
const TRIES: usize = 50;

/// A cluster node's bus port is its port plus this.
const BUS: u16 = 10_000;

/// A loopback address that was free a moment ago, reserved for this process.
///
/// While a server is down for a restart, the server of another test program cannot take its port.
/// The reservation ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct ReservedAddress {
    addr: SocketAddr,
    _locks: Vec<File>,
}

impl ReservedAddress {
    /// Reserves a free address.
    pub(crate) fn new() -> io::Result<Self> {
        listen(RANGE, &[0]).map(|(_, reserved)| reserved)
    }

    /// Reserves a free address with a free bus port.
    pub(crate) fn for_cluster() -> io::Result<Self> {
        // The bus ports must be in the range too.
        listen(RANGE.start..RANGE.end - BUS, &[0, BUS]).map(|(_, reserved)| reserved)
    }

    /// Reserves a free address and listens on it.
    pub(crate) fn listener() -> io::Result<(TcpListener, Self)> {
        listen(RANGE, &[0])
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Reserves a random port of `range` with the ports at these distances, and listens on it.
fn listen(range: std::ops::Range<u16>, distances: &[u16]) -> io::Result<(TcpListener, ReservedAddress)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..TRIES {
        let port = fastrand::u16(range.clone());
        let reserve_and_bind = |distance: &u16| {
            let lock = reserve(port + distance)?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, port + distance)).map(|listener| (listener, lock))
        };
        match distances.iter().map(reserve_and_bind).collect::<io::Result<(Vec<_>, Vec<_>)>>() {
            Ok((listeners, locks)) => {
                let Some(listener) = listeners.into_iter().next() else { break };
                let addr = listener.local_addr()?;
                return Ok((listener, ReservedAddress { addr, _locks: locks }));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reserves a port until the returned file is dropped, by locking a file that all test programs of
/// the machine share. Each port has one file; it is empty and is never deleted.
fn reserve(port: u16) -> io::Result<File> {
    let folder = std::env::temp_dir().join("redgrid-testkit-ports");
    fs::create_dir_all(&folder)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(port.to_string()))?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_again_until_it_is_dropped() {
        let first = ReservedAddress::new().unwrap();
        assert!(reserve(first.addr().port()).is_err());
        let port = first.addr().port();
        drop(first);
        assert!(reserve(port).is_ok());
    }
}
