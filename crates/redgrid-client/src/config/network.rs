//! The ways to reach servers: resolvers, dialers, proxies, and translated addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use super::access::Secret;
use super::servers::Address;

/// Resolves host names, instead of the system's resolver.
///
/// ```
/// use std::net::SocketAddr;
///
/// struct Fixed(Vec<SocketAddr>);
///
/// #[async_trait::async_trait]
/// impl redgrid_client::config::Resolver for Fixed {
///     async fn resolve(&self, _host: &str, _port: u16) -> std::io::Result<Vec<SocketAddr>> {
///         Ok(self.0.clone())
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = redgrid_client::Config::single("db.internal")?
///     .resolver(Fixed(vec!["10.0.0.1:6379".parse()?]));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of `host`, the preferred one first. The client calls this method
    /// before each connection, but not for IP addresses. The call counts towards `connect_timeout`.
    ///
    /// # Errors
    ///
    /// The reason why there is no address. The text is shown to users. The kind
    /// [`io::ErrorKind::NotFound`] means that the name does not exist. If the client has never been
    /// connected to the server, calls that need the server then fail early.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Opens connections in another way than by TCP from this machine: for example through a tunnel, or
/// through a proxy with its own protocol.
///
/// If TLS is configured, it runs over the dialer's connection.
#[async_trait]
pub trait Dialer: Send + Sync + 'static {
    /// Opens a connection to `host:port`. The client calls this method for each connection. The
    /// call counts towards `connect_timeout`.
    ///
    /// # Errors
    ///
    /// The reason why there is no connection. The text is shown to users.
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>>;
}

/// A connection of a [`Dialer`]: any stream of bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// A SOCKS5 proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socks {
    pub(crate) address: Address,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
}

/// How servers are reached.
#[derive(Clone, Default)]
pub(crate) struct Network {
    pub(crate) resolver: Option<Arc<dyn Resolver>>,
    pub(crate) dialer: Option<Arc<dyn Dialer>>,
    /// Pairs of addresses. Servers, sentinels or this configuration use the first address of a
    /// pair; the client connects to the second one instead.
    pub(crate) address_map: Vec<(Address, Address)>,
    pub(crate) socks: Option<Socks>,
}

impl Network {
    /// Returns the address to which the map translates `address`, or `address` itself if the map
    /// does not contain it.
    pub(crate) fn mapped<'a>(&'a self, address: &'a Address) -> &'a Address {
        let found = self.address_map.iter().find(|(named, _)| named == address);
        found.map_or(address, |(_, here)| here)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("resolver", &self.resolver.is_some())
            .field("dialer", &self.dialer.is_some())
            .field("address_map", &self.address_map)
            .field("socks", &self.socks)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_in_the_map_stays_as_it_is() {
        let address = |port| Address::new("10.0.0.1", port);
        let map = vec![(address(1), Address::new("outside", 7001))];
        let network = Network { address_map: map, ..Network::default() };
        assert_eq!(network.mapped(&address(1)), &Address::new("outside", 7001));
        assert_eq!(network.mapped(&address(2)), &address(2));
    }
}
