//! One attempt of a client, from its first request until the client forgets it.

use super::Timer;

/// State of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A copy of the acquire is in flight on the living connection.
    #[default]
    Acquiring,
    /// No copy is in flight, and an earlier copy is unanswered: the client may retry or give up.
    Unknown,
    /// The attempt was granted in time, and is not released yet. The deadline decides whether the
    /// client still believes.
    Held,
    /// The caller does not need the lock. The client releases the attempt until the server can have
    /// no trace of it.
    Releasing,
}

/// The true history of a hold on the server since its client began to believe. The protocol never
/// reads it; the client's reports are compared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The key has always held the client's field.
    #[default]
    Ours,
    /// The client's own release ended the hold.
    Released,
    /// The hold ended in another way.
    Ended,
}

/// One attempt, and the hold it may become.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// The state of the attempt.
    pub phase: Phase,
    /// A grant was reported to the caller, and the end of the hold has not been reported yet.
    pub owes_report: bool,
    /// At least one copy of the acquire will never be answered.
    pub unclean: bool,
    /// The server answered "too late" once, and the client retried.
    pub retried: bool,
    /// One release of the attempt was answered.
    pub released: bool,
    /// One release of the attempt went unanswered.
    pub repeat: bool,
    /// The instant until which the client believes.
    pub deadline: Timer,
    /// The first instant at which every lost copy of the acquire is refused.
    pub acquires_refused_from: Lapse,
    /// The first instant at which every lost extend of the attempt is refused.
    pub extends_refused_from: Lapse,
    /// The lease of an extend that is sent again; used only if the rule against it is switched off.
    pub extend_again: Option<u8>,
    /// The true history of the hold.
    pub fate: Fate,
    /// The number that identifies the field together with the client. It is the last field of this
    /// struct, so that holds are sorted by state and not by name.
    pub serial: u8,
}

/// The instant from which a lost copy cannot have an effect, by the clock that decides.
///
/// At most one of the two instants is in the future; a rule selects the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lapse {
    /// By the client's clock.
    pub client: Timer,
    /// By the server's clock, as written in the copy.
    pub server: Timer,
}

impl Lapse {
    /// Returns the later of two instants, for each clock.
    pub fn max(self, other: Self) -> Self {
        Self { client: self.client.max(other.client), server: self.server.max(other.server) }
    }
}

impl Hold {
    /// Whether the client still needs this attempt; the other attempts are only being released.
    pub fn is_current(&self) -> bool {
        self.phase != Phase::Releasing
    }

    /// Whether the deadline is in the future.
    pub fn is_within_deadline(&self) -> bool {
        self.deadline.is_ahead()
    }

    /// Lets one tick of the client's clock pass.
    pub fn client_tick(&mut self) {
        self.deadline.tick();
        self.acquires_refused_from.client.tick();
        self.extends_refused_from.client.tick();
    }

    /// Lets one tick of the server's clock pass.
    pub fn server_tick(&mut self) {
        self.acquires_refused_from.server.tick();
        self.extends_refused_from.server.tick();
    }

    /// Clears data without further effect, so that states that differ only in such data become one.
    pub fn tidy(&mut self) {
        if self.phase != Phase::Acquiring {
            self.retried = false;
        }
        if self.phase != Phase::Held {
            self.extends_refused_from = Lapse::default();
            self.extend_again = None;
        }
        if self.phase == Phase::Releasing && !self.owes_report {
            self.deadline = Timer::PAST;
            self.repeat = false;
        }
        if !self.owes_report {
            self.fate = Fate::Ours;
        }
    }
}
