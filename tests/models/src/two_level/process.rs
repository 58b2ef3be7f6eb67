//! The state of a process: its lease on the server, the local owner, the waiters, and the request
//! in flight.

use super::server::{Answer, Order};
use super::{AcquireOptions, Timer};

/// A process that uses the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// It died; what is left of it is late bytes and perhaps a key.
    pub crashed: bool,
    /// Tasks that wait, in their order.
    pub queue: Vec<AcquireOptions>,
    /// What the table does for those who wait while it has nothing under way.
    pub drive: Drive,
    /// What it has on the server, as far as it knows.
    pub server_lease: Option<ServerLease>,
    /// Who owns the server lease here, by the table.
    pub owner: Option<Owner>,
    /// What tasks have in their hands.
    pub guards: Vec<Guard>,
    /// The one request under way.
    pub flight: Option<Flight>,
    /// What may be, or become, ours on the server although nobody here wants it.
    pub unsettled: Vec<Unsettled>,
    /// Requests of lost connections that may still arrive, in any order.
    pub late: Vec<Request>,
    /// A notice under way: this attempt's key was taken by force.
    pub notice: Option<u8>,
    /// What was taken from it by force, known to nobody but the model.
    pub dispossessed: Vec<Dispossessed>,
}

/// How the table cares for those who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drive {
    /// It does not.
    #[default]
    Idle,
    /// An attempt is to be sent.
    Due,
    /// Others hold the key: it waits for a message, for the expiry, for the next poll.
    Watching,
}

/// What a process has on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerLease {
    /// Its field, together with the process.
    pub serial: u8,
    /// Believed until then, counted from sending.
    pub deadline: Timer,
    /// Handed on until then, counted from sending.
    pub handover_window: Timer,
    /// The first owner's entry is still to come, on these terms.
    pub first: Option<First>,
    /// The time at the server less the token last given, or, of a fresh grant, less the token to
    /// give.
    pub lag: i8,
    /// The time since the grant was known less the hand-overs since.
    pub room: i8,
    /// It was stolen, and its token is still to be read, not before this.
    pub settling: Option<Timer>,
    /// The name is kept until then.
    pub keep: Timer,
    /// Some copy of its acquire was not answered; every such copy is refused from then on.
    pub carried: Option<Timer>,
    /// It was handed on; shows what was reached.
    pub handed_on: bool,
    /// Its lease was lengthened for the next owner; shows what was reached.
    pub lengthened: bool,
    /// The table has set a timer to look at it again.
    pub watched: bool,
    /// Its release is queued, and not sent.
    pub release_queued: bool,
    /// A notice said that it was taken by force; only where it is (wrongly) kept.
    pub forced: bool,
}

/// The terms of a grant's first owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct First {
    /// The lease asked for.
    pub asked: u8,
    /// When that lease ends, counted from sending.
    pub end: Timer,
}

/// Who owns the server lease, as the table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its number, the same in its guards.
    pub number: u8,
    /// Its own deadline.
    pub deadline: Timer,
    /// What it asked for.
    pub options: AcquireOptions,
}

/// What a task has in its hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guard {
    /// Of which ownership.
    pub number: u8,
    /// Of which server lease.
    pub serial: u8,
    /// Believed until then.
    pub deadline: Timer,
    /// It was told that the hold is lost.
    pub told: bool,
}

/// The request under way on the living connection, or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// What the server reads.
    pub request: Request,
    /// What it answered.
    pub answer: Option<Answer>,
    /// The server lease's deadline if it is granted, counted from sending.
    pub deadline: Timer,
    /// The hand-over window if it is granted, counted from sending.
    pub handover_window: Timer,
    /// The terms of the first owner.
    pub first: First,
    /// An earlier copy of the acquire was not answered; every such copy is refused from then on.
    pub carried: Option<Timer>,
    /// A notice said that it was taken by force before the reply came.
    pub forced: bool,
    /// Its asker left; only where that (wrongly) matters.
    pub orphan: bool,
    /// A release sent when no copy of the acquire could be carried out any more.
    pub last: bool,
}

/// A request as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Which attempt of the process.
    pub serial: u8,
    /// What the script shall do.
    pub order: Order,
}

/// Something to be given back until nothing of it can be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unsettled {
    /// Which attempt.
    pub serial: u8,
    /// Every lost copy of its acquire is refused from then on.
    pub refused_from: Timer,
    /// Not given back before this.
    pub not_before: Timer,
    /// Whether it is a theft: it is given back once, later.
    pub by_force: bool,
    /// A release of it was answered.
    pub answered: bool,
}

/// An attempt whose key was taken by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dispossessed {
    /// Which attempt.
    pub serial: u8,
    /// Somebody else has entered since.
    pub followed: bool,
}

/// Somebody enters: what the model looks at.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Of which server lease.
    pub serial: u8,
    /// The server's time less the token.
    pub lag: i8,
    /// The name is kept until then.
    pub keep: Timer,
    /// Somebody else was before it in the queue.
    pub overtook: bool,
    /// The process knew that the server lease was taken by force.
    pub deaf: bool,
}

impl Process {
    /// Whether the process still has to do with this attempt.
    pub fn knows(&self, serial: u8) -> bool {
        self.server_lease.is_some_and(|server_lease| server_lease.serial == serial)
            || self.flight.is_some_and(|flight| flight.request.serial == serial)
            || self.unsettled.iter().any(|left| left.serial == serial)
    }

    /// Whether anything under way or in hand names this attempt.
    pub fn names(&self, serial: u8) -> bool {
        self.knows(serial)
            || self.guards.iter().any(|guard| guard.serial == serial)
            || self.late.iter().any(|request| request.serial == serial)
    }

    /// Whether this attempt's key was taken by force.
    pub fn was_dispossessed(&self, serial: u8) -> bool {
        self.dispossessed.iter().any(|dispossessed| dispossessed.serial == serial)
    }

    /// Lets one tick pass, by its clock and the server's.
    pub fn tick(&mut self, oldest: i8) {
        let age = |age: &mut i8| *age = (*age + 1).min(oldest);
        if let Some(server_lease) = &mut self.server_lease {
            let ServerLease { deadline, handover_window, first, lag, room, settling, keep, carried, .. } = server_lease;
            [deadline, handover_window, keep].into_iter().chain(carried).for_each(Timer::tick);
            if let Some(first) = first {
                first.end.tick();
            }
            if let Some(settling) = settling {
                settling.tick();
            }
            age(lag);
            age(room);
        }
        if let Some(owner) = &mut self.owner {
            owner.deadline.tick();
        }
        self.guards.iter_mut().for_each(|guard| guard.deadline.tick());
        if let Some(Flight { request, answer, deadline, handover_window, first, carried, .. }) = &mut self.flight {
            request.order.tick();
            [deadline, handover_window, &mut first.end].into_iter().chain(carried).for_each(Timer::tick);
            if let Some(Answer::Granted { lag }) = answer {
                age(lag);
            }
        }
        for left in &mut self.unsettled {
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
