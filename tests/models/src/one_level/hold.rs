//! One attempt of a client, from its first request until it is forgotten.

use super::Timer;

/// State of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A copy of the acquire is in flight on the living connection.
    #[default]
    Acquiring,
    /// No copy is in flight, and an earlier copy is unanswered: the client may retry or give up.
    Unknown,
    /// Granted in time, and not released yet. The deadline decides whether the client still
    /// believes.
    Held,
    /// The caller no longer needs the lock. The client releases until no trace of the attempt can
    /// be left on the server.
    Releasing,
}

/// The true history of a hold on the server since its client began to believe. The protocol never
/// reads it; it is the measure for the client's reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// The key was ours all the time.
    #[default]
    Ours,
    /// Our own release ended it.
    Released,
    /// It ended without us.
    Ended,
}

/// One attempt, and the hold it may become.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// Its state.
    pub phase: Phase,
    /// A grant was reported to the caller, and its release has not been reported yet.
    pub owes_report: bool,
    /// At least one copy of its acquire will never be answered.
    pub unclean: bool,
    /// "Too late" was answered once, and the client retried.
    pub retried: bool,
    /// One release of it was answered.
    pub released: bool,
    /// One release of it went unanswered.
    pub repeat: bool,
    /// The client believes until this instant.
    pub deadline: Timer,
    /// The first instant at which every lost copy of its acquire is refused.
    pub acquires_refused_from: Lapse,
    /// The first instant at which every lost extend of it is refused.
    pub extends_refused_from: Lapse,
    /// The lease of an extend to be sent again; used only with the rule against it switched off.
    pub extend_again: Option<u8>,
    /// Its true history.
    pub fate: Fate,
    /// Its field, together with the client. It is the last field here, so that holds are sorted by
    /// their state and not by name.
    pub serial: u8,
}

/// The instant from which a lost copy can have no effect, by the clock that decides.
///
/// Only one of the two is ever ahead; a rule selects the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lapse {
    /// By the client's clock.
    pub client: Timer,
    /// By the server's clock, as written in the copy.
    pub server: Timer,
}

impl Lapse {
    /// Returns the later of two instants, per clock.
    pub fn max(self, other: Self) -> Self {
        Self { client: self.client.max(other.client), server: self.server.max(other.server) }
    }
}

impl Hold {
    /// Whether the client wants this attempt now; the others are only being released.
    pub fn is_current(&self) -> bool {
        self.phase != Phase::Releasing
    }

    /// Whether the deadline is still ahead.
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

    /// Clears what no longer matters, so that states that differ only by it become one.
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
