//! Opens a byte stream to a server's address: resolves names, tries several addresses, uses
//! proxies.
//!
//! If a name has several addresses, the attempts start one after another (RFC 8305, "Happy
//! Eyeballs"). The next attempt starts when an earlier one has failed, or after a delay. The
//! delay is 250 ms, or the time limit divided by the number of addresses if that is shorter. The
//! first address that accepts a connection wins.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::config::Address;
use crate::config::network::{Network, Stream};
use crate::connection::endpoint::Endpoint;
use crate::connection::socks;
use crate::connection::trouble::{Trouble, of_system};

/// Longest delay before the next address of a name is tried: 250 ms, the value of RFC 8305.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Opens a stream to the server at `place`.
///
/// # Errors
///
/// The name has no address, none of its addresses accepts a connection, the dialer failed, or the
/// attempt took longer than `limit`.
///
/// # Cancel safety
///
/// Dropping the future leaves no connection behind.
pub(crate) async fn dial(place: &Endpoint, network: &Network, limit: Duration) -> Result<Box<dyn Stream>, Trouble> {
    let late = || Trouble::passing(format!("no connection to {place} within {limit:?}"));
    let dialing = async {
        match place {
            Endpoint::Tcp(address) => to_address(network.mapped(address), network, limit).await,
            #[cfg(unix)]
            Endpoint::Unix(path) => match tokio::net::UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::new(stream) as Box<dyn Stream>),
                Err(error) => Err(Trouble::passing(of_system(&error))),
            },
        }
    };
    timeout(limit, dialing).await.unwrap_or_else(|_| Err(late()))
}

async fn to_address(address: &Address, network: &Network, limit: Duration) -> Result<Box<dyn Stream>, Trouble> {
    let Address { host, port } = address;
    if let Some(dialer) = &network.dialer {
        let failed = |error: io::Error| Trouble::passing(format!("the dialer failed: {}", of_system(&error)));
        return dialer.dial(host, *port).await.map_err(failed);
    }
    if let Some(proxy) = &network.socks {
        let of_proxy =
            |trouble: Trouble| Trouble::passing(format!("the SOCKS proxy at {}: {}", proxy.address, trouble.message));
        let stream = connect(&proxy.address, network, limit).await.map_err(of_proxy)?;
        let stream = socks::pass(stream, proxy, host, *port).await.map_err(Trouble::passing)?;
        return Ok(Box::new(stream));
    }
    Ok(Box::new(connect(address, network, limit).await?))
}

async fn connect(Address { host, port }: &Address, network: &Network, limit: Duration) -> Result<TcpStream, Trouble> {
    let unknown = |error: io::Error| Trouble::unresolved(host, &error);
    let addresses = match (host.parse::<IpAddr>(), &network.resolver) {
        (Ok(ip), _) => vec![SocketAddr::new(ip, *port)],
        (_, Some(resolver)) => resolver.resolve(host, *port).await.map_err(unknown)?,
        (_, None) => tokio::net::lookup_host((host.as_str(), *port)).await.map_err(unknown)?.collect(),
    };
    if addresses.is_empty() {
        return Err(Trouble::lasting(format!("the name `{host}` has no address")));
    }
    let failed = |error: io::Error| Trouble::passing(of_system(&error));
    let stream = match addresses[..] {
        [only] => TcpStream::connect(only).await.map_err(failed)?,
        _ => race(addresses, limit).await.map_err(failed)?,
    };
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

async fn race(addresses: Vec<SocketAddr>, limit: Duration) -> io::Result<TcpStream> {
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let step = NEXT_ADDRESS.min(share);
    let connect = async |address| (address, TcpStream::connect(address).await);
    let mut waiting = interleaved(addresses).into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut last = None;
    attempts.extend(waiting.next().map(connect));
    loop {
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some((_, Ok(stream))) => return Ok(stream),
                Some((address, Err(error))) => {
                    last = Some(io::Error::new(error.kind(), format!("{address}: {}", of_system(&error))));
                    attempts.extend(waiting.next().map(connect));
                }
                None => return Err(last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into())),
            },
            () = sleep(step), if waiting.len() > 0 => attempts.extend(waiting.next().map(connect)),
        }
    }
}

/// Reorders the addresses so that IPv6 and IPv4 alternate, starting with the family of the first
/// address.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (ones, others): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let most = ones.len().max(others.len());
    (0..most).flat_map(|at| [ones.get(at), others.get(at)]).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn families_alternate_and_each_keeps_its_order() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let [a, b, c] = ["[::1]:1", "[::2]:1", "[::3]:1"].map(address);
        let [x, y] = ["127.0.0.1:1", "127.0.0.2:1"].map(address);
        assert_eq!(interleaved(vec![a, b, c, x, y]), [a, x, b, y, c]);
        assert_eq!(interleaved(vec![x, a, y]), [x, a, y]);
        assert_eq!(interleaved(vec![x]), [x]);
    }

    #[tokio::test]
    async fn an_address_that_refuses_gives_way_at_once_and_one_that_is_silent_after_its_share() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = {
            let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
            taken.local_addr().unwrap()
        };
        // A documentation address (RFC 5737): packets to it are dropped, or refused by this
        // machine.
        let silent = "192.0.2.1:9".parse().unwrap();
        let limit = Duration::from_secs(20);
        assert_eq!(race(vec![closed, open], limit).await.unwrap().peer_addr().unwrap(), open);
        assert_eq!(race(vec![silent, open], limit).await.unwrap().peer_addr().unwrap(), open);
        let error = race(vec![closed, closed], limit).await.unwrap_err();
        assert!(error.to_string().starts_with(&closed.to_string()), "{error}");
    }
}
