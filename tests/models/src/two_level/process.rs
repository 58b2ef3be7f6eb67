//! The state of a process: its lease on the server, the local owner, the waiters, and the request
//! in flight.

use super::server::{Answer, Order};
use super::{AcquireOptions, Timer};

/// A process that uses the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Whether the process crashed; only late bytes and perhaps a key are left of it.
    pub crashed: bool,
    /// Waiting tasks, in their order.
    pub queue: Vec<AcquireOptions>,
    /// The next step for the waiters while no request is in flight.
    pub poll: Poll,
    /// The grant on the server, as far as the process has information.
    pub server_lease: Option<ServerLease>,
    /// The owner of the server lease, according to the table.
    pub owner: Option<Owner>,
    /// The guards of the process's tasks.
    pub guards: Vec<Guard>,
    /// The request in flight; at most one.
    pub flight: Option<Flight>,
    /// Attempts that no task needs, but that may hold or take the key.
    pub deferred: Vec<DeferredRelease>,
    /// Requests of lost connections that may still arrive, in any order.
    pub late: Vec<Request>,
    /// A notice in flight: the key of this attempt was taken by force.
    pub notice: Option<u8>,
    /// The attempts that lost their key by force; only the model has this information.
    pub preempted: Vec<Preempted>,
}

/// The next step of the table for waiters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Poll {
    /// There is no next step.
    #[default]
    Idle,
    /// An attempt is to be sent.
    Due,
    /// Another process holds the key: the table waits for a message, for the expiry, or for the
    /// next poll.
    Watching,
}

/// A grant of the server, as the process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerLease {
    /// The number that identifies the field together with the process.
    pub serial: u8,
    /// The instant until which the process believes, counted from sending.
    pub deadline: Timer,
    /// The instant until which the lease may be handed over, counted from sending.
    pub handover_window: Timer,
    /// The terms of the first owner, until that owner enters.
    pub first: Option<First>,
    /// The server's time minus the last issued token. For a new grant: minus the first token to
    /// issue.
    pub lag: i8,
    /// The time since the process received the grant, minus the number of hand-overs since then.
    pub room: i8,
    /// Set while a takeover's token has not been read: the instant from which it may be read.
    pub token_due: Option<Timer>,
    /// The instant until which the name stays taken.
    pub keep: Timer,
    /// Set if at least one copy of the acquire was not answered: the instant from which every such
    /// copy is refused.
    pub unanswered: Option<Timer>,
    /// Whether the lease was handed over; shows that this state was reached.
    pub handed_over: bool,
    /// Whether the lease was lengthened for the next owner; shows that this state was reached.
    pub lengthened: bool,
    /// Whether the table has set a timer to check the lease again.
    pub watched: bool,
    /// Whether the release of the lease is queued and not sent.
    pub release_queued: bool,
    /// Whether a notice of a forced takeover has arrived; used only if the lease is then (wrongly)
    /// kept.
    pub forced: bool,
}

/// The terms of a grant's first owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct First {
    /// The requested lease.
    pub requested: u8,
    /// When the requested lease ends, counted from sending.
    pub end: Timer,
}

/// The owner of the server lease, according to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The number of the ownership, also stored in its guards.
    pub number: u8,
    /// The owner's deadline.
    pub deadline: Timer,
    /// The options of its acquire.
    pub options: AcquireOptions,
}

/// A guard, which belongs to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guard {
    /// Number of the ownership that the guard belongs to.
    pub number: u8,
    /// Number of the attempt that acquired its server lease.
    pub serial: u8,
    /// The instant until which the task believes.
    pub deadline: Timer,
    /// Whether the task was notified that the hold is lost.
    pub notified: bool,
}

/// The request in flight on the living connection, or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// The part that the server reads.
    pub request: Request,
    /// The server's answer.
    pub answer: Option<Answer>,
    /// The server lease's deadline after a grant, counted from sending.
    pub deadline: Timer,
    /// The hand-over window after a grant, counted from sending.
    pub handover_window: Timer,
    /// The terms of the first owner.
    pub first: First,
    /// Set if an earlier copy of the acquire was not answered: the instant from which every such
    /// copy is refused.
    pub unanswered: Option<Timer>,
    /// Whether a notice of a forced takeover arrived before the reply.
    pub forced: bool,
    /// Whether the task of the request has cancelled; used only if this (wrongly) matters.
    pub cancelled: bool,
    /// Whether this is a release sent after the last instant at which a copy of the acquire could
    /// be executed.
    pub last: bool,
}

/// A request in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Number of the attempt.
    pub serial: u8,
    /// The change that the script makes.
    pub order: Order,
}

/// An attempt that is released until the server can have no trace of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeferredRelease {
    /// Number of the attempt.
    pub serial: u8,
    /// The instant from which every lost copy of the acquire is refused.
    pub refused_from: Timer,
    /// The instant before which the attempt is not released.
    pub not_before: Timer,
    /// Whether the attempt is a takeover. A takeover is released only once, and later.
    pub by_force: bool,
    /// Whether a release of the attempt was answered.
    pub answered: bool,
}

/// An attempt that lost its key by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Preempted {
    /// Number of the attempt.
    pub serial: u8,
    /// Whether a task of another process has entered since.
    pub followed: bool,
}

/// The entry of a task, with the facts to check.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Number of the attempt that acquired the server lease.
    pub serial: u8,
    /// The server's time minus the token.
    pub lag: i8,
    /// The instant until which the name stays taken.
    pub keep: Timer,
    /// Whether an earlier waiter was still in the queue.
    pub overtook: bool,
    /// Whether the process had the notice that its server lease was taken by force.
    pub ignores_notice: bool,
}

impl Process {
    /// Whether the process still has this attempt.
    pub fn knows(&self, serial: u8) -> bool {
        self.server_lease.is_some_and(|server_lease| server_lease.serial == serial)
            || self.flight.is_some_and(|flight| flight.request.serial == serial)
            || self.deferred.iter().any(|left| left.serial == serial)
    }

    /// Whether a request, a guard or a lease names this attempt.
    pub fn names(&self, serial: u8) -> bool {
        self.knows(serial)
            || self.guards.iter().any(|guard| guard.serial == serial)
            || self.late.iter().any(|request| request.serial == serial)
    }

    /// Whether this attempt's key was taken by force.
    pub fn was_preempted(&self, serial: u8) -> bool {
        self.preempted.iter().any(|preempted| preempted.serial == serial)
    }

    /// Lets one tick of the process's clock and of the server's clock pass.
    pub fn tick(&mut self, oldest: i8) {
        let age = |age: &mut i8| *age = (*age + 1).min(oldest);
        if let Some(server_lease) = &mut self.server_lease {
            let ServerLease { deadline, handover_window, first, lag, room, token_due, keep, unanswered, .. } =
                server_lease;
            [deadline, handover_window, keep].into_iter().chain(unanswered).for_each(Timer::tick);
            if let Some(first) = first {
                first.end.tick();
            }
            if let Some(token_due) = token_due {
                token_due.tick();
            }
            age(lag);
            age(room);
        }
        if let Some(owner) = &mut self.owner {
            owner.deadline.tick();
        }
        self.guards.iter_mut().for_each(|guard| guard.deadline.tick());
        if let Some(Flight { request, answer, deadline, handover_window, first, unanswered, .. }) = &mut self.flight {
            request.order.tick();
            [deadline, handover_window, &mut first.end].into_iter().chain(unanswered).for_each(Timer::tick);
            if let Some(Answer::Granted { lag }) = answer {
                age(lag);
            }
        }
        for left in &mut self.deferred {
            left.refused_from.tick();
            left.not_before.tick();
        }
        self.late.iter_mut().for_each(|request| request.order.tick());
    }
}

impl Order {
    /// Lets one tick of the server's clock pass.
    pub fn tick(&mut self) {
        if let Self::Acquire { refused_from, .. } = self {
            refused_from.tick();
        }
    }
}
