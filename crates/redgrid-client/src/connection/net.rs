//! One node and its connections: dialing, login, supervision, and the transport of requests,
//! replies and messages.
//!
//! - `dedicated`: a connection for one purpose, such as MULTI/EXEC or SCRIPT KILL.
//! - `dial`: opens a byte stream to an address; `socks`: opens it through a SOCKS5 proxy.
//! - `encryption`: TLS.
//! - `endpoint`: address, credentials and encryption of a server, and all connections to it.
//! - `link`: one connection, which is probed and reopened; its `pipeline` carries requests, replies
//!   and messages.
//! - `login`: login with passwords that change.
//! - `node`: one node with all its connections, and the encoding of requests.
//! - `pool`: the connections for requests to one node.
//! - `server_clock`: a lower bound of the server's clock.
//! - `subscriber`: the connections that carry subscriptions.
//! - `trouble`: the reason why a connection failed, as a message for users.

pub(super) mod dedicated;
pub(super) mod dial;
pub(super) mod encryption;
pub(super) mod endpoint;
pub(super) mod link;
pub(super) mod login;
pub(super) mod node;
pub(super) mod pool;
pub(super) mod server_clock;
pub(super) mod socks;
pub(super) mod subscriber;
pub(super) mod trouble;
