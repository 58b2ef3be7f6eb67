//! Connections: requests and replies in order, and the bytes that outlive a lost connection.

use super::Timer;
use super::server::{Answer, Order};

/// A request for one attempt's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The number of the attempt.
    pub serial: u8,
    /// The change that the script makes.
    pub order: Order,
}

/// A client's notes on a request until its reply.
///
/// In the model, the notes travel with the request, because replies arrive in the order of the
/// requests. The server does not read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Memo {
    /// The deadline after a confirmation, counted from before the request was sent.
    pub deadline: Timer,
    /// The requested lease; stored only if the deadline is (wrongly) counted from the reply.
    pub lease: u8,
    /// Whether a confirmation may raise the deadline.
    pub raises: bool,
    /// The first instant, by the client's clock, at which the copy is refused.
    pub refused_from: Timer,
    /// Whether the extend may shorten the lease. Until it is confirmed or refused, the deadline is
    /// not raised.
    pub shortens: bool,
    /// Whether the release was sent after the latest `not_after`, by the client's clock.
    pub last: bool,
}

/// A request in flight on a living connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The part that the server reads.
    pub request: Request,
    /// The part that only the client keeps.
    pub memo: Memo,
}

/// A reply in flight on a living connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    /// The call that this reply answers.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
    /// Which `not_after` of the client are before the server's time in this reply.
    pub past: Past,
}

/// Whether the server's time in a reply is past the `not_after` of lost copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Past {
    /// The time is past the `not_after` of every lost copy of the attempt's acquire, as written in
    /// the copies.
    pub acquires: bool,
    /// The time is past the `not_after` of every lost extend of the attempt, as written in the
    /// copies.
    pub extends: bool,
}

/// All connections of one client: the living one, and the remains of lost ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Requests on the living connection that the server has not read yet, oldest first.
    pub requests: Vec<Call>,
    /// Replies on the living connection that the client has not read yet, oldest first.
    pub replies: Vec<Reply>,
    /// For each lost connection, the requests that may still arrive, oldest first. The connections
    /// are sorted by content, not by age.
    pub late: Vec<Vec<Request>>,
}

impl Link {
    /// Number of unanswered requests on the living connection.
    pub fn in_flight(&self) -> usize {
        self.requests.len() + self.replies.len()
    }

    /// Returns every unanswered call of the living connection. To the client, unread requests and
    /// unread replies look alike.
    pub fn unanswered(&self) -> impl Iterator<Item = &Call> {
        self.replies.iter().map(|reply| &reply.call).chain(&self.requests)
    }

    /// Whether a release of this attempt is unanswered on the living connection.
    pub fn releases(&self, serial: u8) -> bool {
        self.unanswered().any(|call| call.request.serial == serial && call.request.order == Order::Release)
    }

    /// Whether an extend of this attempt is unanswered on the living connection.
    pub fn extends(&self, serial: u8) -> bool {
        self.unanswered()
            .any(|call| call.request.serial == serial && matches!(call.request.order, Order::Extend { .. }))
    }

    /// Whether a shortening of this attempt is unanswered on the living connection.
    pub fn shortens(&self, serial: u8) -> bool {
        self.unanswered().any(|call| call.request.serial == serial && call.memo.shortens)
    }

    /// Loses the living connection. Its replies are lost; its requests may still arrive. Returns
    /// the calls whose outcome is unknown.
    pub fn lose(&mut self) -> Vec<Call> {
        let unanswered: Vec<Call> = self.unanswered().copied().collect();
        self.replies.clear();
        let rest: Vec<Request> = self.requests.drain(..).map(|call| call.request).collect();
        if !rest.is_empty() {
            self.late.push(rest);
            self.late.sort_unstable();
        }
        unanswered
    }

    /// Removes and returns the oldest request of a lost connection, which now arrives.
    pub fn arrive_late(&mut self, connection: usize) -> Request {
        let request = self.late[connection].remove(0);
        if self.late[connection].is_empty() {
            self.late.remove(connection);
        }
        self.late.sort_unstable();
        request
    }

    /// Lets one tick of the server's clock pass.
    pub fn server_tick(&mut self) {
        for call in &mut self.requests {
            call.request.order.tick();
        }
        for reply in &mut self.replies {
            reply.call.request.order.tick();
        }
        for request in self.late.iter_mut().flatten() {
            request.order.tick();
        }
        self.late.sort_unstable();
    }

    /// Returns the client's notes on every unanswered call.
    pub fn memos_mut(&mut self) -> impl Iterator<Item = &mut Memo> {
        let replies = self.replies.iter_mut().map(|reply| &mut reply.call);
        replies.chain(&mut self.requests).map(|call| &mut call.memo)
    }

    /// Lets one tick of the client's clock pass.
    pub fn client_tick(&mut self) {
        for memo in self.memos_mut() {
            memo.deadline.tick();
            memo.refused_from.tick();
        }
    }
}
