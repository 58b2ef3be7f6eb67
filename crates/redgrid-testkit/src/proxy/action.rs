//! Faults of a proxy.

use std::time::Duration;

/// A direction of traffic through a [`Proxy`](crate::Proxy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Exhaustive: a connection has two directions.
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
    /// None: bytes pass unchanged.
    #[default]
    Pass,
    /// Everything arrives this much later, in order: higher latency, not lower bandwidth.
    Delay(Duration),
    /// Everything is kept, and arrives when the fault ends: a broken link that recovers while TCP
    /// still retransmits.
    Stall,
    /// Everything is read and dropped. A connection that lost data in a direction loses all that
    /// follows in that direction, even after the fault has ended, because TCP has no gaps. It is
    /// not seen to close.
    BlackHole,
}

/// The handling of one request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Action {
    /// It is sent to the server, and its reply to the client.
    #[default]
    Forward,
    /// It is sent to the server; its reply and everything after it on this connection is dropped.
    /// The server still receives and executes the client's requests.
    SwallowReply,
    /// It stays in the proxy until [`Proxy::release_held`](crate::Proxy::release_held), even if the
    /// client has gone: a retransmission that arrives late. Later requests of this connection wait
    /// behind it.
    Hold,
    /// It is sent to the server. When the reply shows that it was executed, the connection is cut
    /// instead of delivering it.
    CutAfterForward,
    /// The connection is cut, and the request never reaches the server. Requests that the client
    /// sent just before it, without waiting for replies, may be lost too.
    CutBefore,
}
