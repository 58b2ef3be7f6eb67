//! Faults of a proxy.

use std::time::Duration;

/// A direction of traffic through a [`Proxy`](crate::Proxy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Not `#[non_exhaustive]`: a connection has two directions.
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies and messages.
    ToClient,
}

/// The fault of all traffic in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fault {
    /// No fault: bytes pass unchanged.
    #[default]
    Pass,
    /// Bytes arrive later by this duration, in order. The latency is higher; the bandwidth is not
    /// lower.
    Delay(Duration),
    /// Bytes are kept, and arrive when the fault ends. This simulates a broken link that recovers
    /// while TCP still retransmits.
    Stall,
    /// Bytes are read and dropped; the connection stays open. A connection that lost data in a
    /// direction loses all later data in that direction, even after the fault has ended, because
    /// TCP has no gaps.
    BlackHole,
}

/// The handling of one request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Action {
    /// Sends the request to the server, and the reply to the client.
    #[default]
    Forward,
    /// Sends the request to the server, but drops its reply and all later replies on this
    /// connection. The server still receives and executes the client's further requests.
    SwallowReply,
    /// Keeps the request in the proxy until [`Proxy::release_held`](crate::Proxy::release_held),
    /// even after the client has disconnected. This simulates a retransmission that arrives late.
    /// Later requests of this connection wait for the held one.
    Hold,
    /// Sends the request to the server, and cuts the connection when the reply arrives. The server
    /// has executed the request, and the client gets no reply.
    CutAfterForward,
    /// Cuts the connection; the request never reaches the server. Requests that the client sent
    /// just before this one, without waiting for replies, may be lost too.
    CutBefore,
}
