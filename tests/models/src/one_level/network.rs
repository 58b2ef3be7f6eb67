//! Connections: requests and replies in order, and the bytes that outlive a lost connection.

use super::Timer;
use super::server::{Answer, Order};

/// A request for one attempt's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Which attempt of the client.
    pub serial: u8,
    /// What the script shall do.
    pub order: Order,
}

/// What a client remembers of a request until its reply.
///
/// It travels with the request here, since replies come in the order of the requests; the server
/// does not look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Memo {
    /// The deadline a confirmation would give, counted from before the request left.
    pub deadline: Timer,
    /// The lease asked for; kept only where the deadline is (wrongly) counted from the reply.
    pub lease: u8,
    /// Whether a confirmation may raise the deadline.
    pub raises: bool,
    /// The first instant, by the client's clock, at which the copy is refused.
    pub refused_from: Timer,
    /// The extend may shorten: until it is known to be done or refused, nothing raises the
    /// deadline.
    pub shortens: bool,
    /// The release was sent after the latest `not_after`, by the client's clock.
    pub last: bool,
}

/// A request under way on a living connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// What the server reads.
    pub request: Request,
    /// What the client remembers.
    pub memo: Memo,
}

/// A reply under way on a living connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reply {
    /// The call it answers.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
    /// How the server's time, which every answer carries, compares with what the client once wrote.
    pub past: Past,
}

/// What the server's time in an answer tells the client about its lost copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Past {
    /// It is past the `not_after` of every lost copy of the attempt's acquire, as written.
    pub acquires: bool,
    /// It is past the `not_after` of every lost extend of the attempt, as written.
    pub extends: bool,
}

/// All connections of one client: the living one, and what is left of lost ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Requests of the living connection the server has not read yet, oldest first.
    pub requests: Vec<Call>,
    /// Replies of the living connection the client has not read yet, oldest first.
    pub replies: Vec<Reply>,
    /// For each lost connection the requests that may still arrive, oldest first. The connections
    /// are in no order.
    pub late: Vec<Vec<Request>>,
}

impl Link {
    /// How many requests are unanswered on the living connection.
    pub fn under_way(&self) -> usize {
        self.requests.len() + self.replies.len()
    }

    /// Every unanswered call of the living connection; the client cannot tell the two kinds apart.
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

    /// Loses the living connection. Its replies are gone; its requests may still arrive. Returns
    /// the calls whose outcome the client does not know.
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

    /// The oldest request of a lost connection arrives after all.
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

    /// What the client remembers of every unanswered call.
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
