//! What a proxy can do to traffic.

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

/// What happens to all traffic in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: bytes go through as they come.
    #[default]
    Pass,
    /// Everything arrives this much later, in its order; a longer way, not a narrower one.
    Delay(Duration),
    /// Everything is kept, and arrives when the fault ends: a broken link that heals while TCP still repeats itself.
    Stall,
    /// Everything is read and thrown away. A connection that lost something in a direction loses all that follows in
    /// that direction, also after the fault has ended, and is not seen to close: TCP knows no gaps.
    BlackHole,
}

/// What happens to one request, and to its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Action {
    /// It goes to the server, and its reply to the client.
    #[default]
    Forward,
    /// It goes to the server; its reply does not come back, nor does anything after it on this connection. The server
    /// still gets, and executes, what the client sends.
    SwallowReply,
    /// It stays in the proxy until [`Proxy::release_held`](crate::Proxy::release_held), even when the client has long
    /// gone: a copy that arrives late. What the client sends after it on this connection waits behind it.
    Hold,
    /// It goes to the server. When the reply shows that it was executed, the connection is cut instead of delivering.
    CutAfterForward,
    /// The connection is cut, and the request never reaches the server. What the client sent just before it, without
    /// waiting for the replies, may be lost with it.
    CutBefore,
}
