//! One attempt of a client, from its first request until it is forgotten.

use super::Timer;

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A copy of the acquire is under way on the living connection.
    #[default]
    Asking,
    /// No copy is under way, and an earlier one is unanswered: it may be asked again or given up.
    Unsure,
    /// Granted in time, and not released yet. Whether it is still believed is for the deadline to
    /// say.
    Held,
    /// The caller is done with it; it is being released, until nothing of it can be left.
    Leaving,
}

/// What really happened on the server to a hold since its client began to believe. The protocol
/// never looks at it; reports are measured by it.
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
    /// Where it stands.
    pub phase: Phase,
    /// A grant was told to the caller, and its release has not been reported yet.
    pub owes_report: bool,
    /// Some copy of its acquire will never be answered.
    pub unclean: bool,
    /// "Too late" was answered once and tried again.
    pub retried: bool,
    /// A release of it was answered.
    pub released: bool,
    /// A release of it went unanswered.
    pub repeat: bool,
    /// Believed until then.
    pub deadline: Timer,
    /// The first instant at which every lost copy of its acquire is refused.
    pub acquires_refused_from: Lapse,
    /// The first instant at which every lost extend of it is refused.
    pub extends_refused_from: Lapse,
    /// The lease of an extend to be sent again; only where that is (wrongly) done.
    pub extend_again: Option<u8>,
    /// What really happened to it.
    pub fate: Fate,
    /// Its field, together with the client. Last, so that holds are sorted by what they are and not
    /// by name.
    pub serial: u8,
}

/// An instant after which a lost copy cannot do anything any more, by the clock that decides.
///
/// Only one of the two is ever ahead: which one is a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lapse {
    /// By the client's clock.
    pub client: Timer,
    /// By the server's clock, as written in the copy.
    pub server: Timer,
}

impl Lapse {
    /// The later of two.
    pub fn max(self, other: Self) -> Self {
        Self { client: self.client.max(other.client), server: self.server.max(other.server) }
    }
}

impl Hold {
    /// Whether this attempt is what the client wants now, as opposed to what it is clearing away.
    pub fn is_current(&self) -> bool {
        self.phase != Phase::Leaving
    }

    /// Whether the lease is counted on.
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

    /// Drops what no longer matters, so that states that differ only by it become one.
    pub fn tidy(&mut self) {
        if self.phase != Phase::Asking {
            self.retried = false;
        }
        if self.phase != Phase::Held {
            self.extends_refused_from = Lapse::default();
            self.extend_again = None;
        }
        if self.phase == Phase::Leaving && !self.owes_report {
            self.deadline = Timer::PAST;
            self.repeat = false;
        }
        if !self.owes_report {
            self.fate = Fate::Ours;
        }
    }
}
