//! What goes wrong, and when: every decision of a simulated network, from one seed.

use std::time::Duration;

/// How the network treats one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Carried out and answered, in the order of its connection.
    Plain {
        /// Its way to the server.
        there: Duration,
        /// The way of its reply.
        back: Duration,
    },
    /// It never arrives.
    RequestLost,
    /// It is carried out, and nobody hears of it.
    ReplyLost {
        /// Its way to the server.
        there: Duration,
    },
    /// It is carried out this much later, past whatever is sent meanwhile and whatever becomes of its connection, and
    /// nobody hears of it.
    Late {
        /// Its way to the server.
        by: Duration,
    },
    /// It is carried out twice, and nobody hears of it.
    Twice {
        /// The way of the first copy.
        there: Duration,
        /// The way of the second, which overtakes and is overtaken as it likes.
        again: Duration,
    },
    /// The server answers with an error and does nothing.
    Refused {
        /// Its way to the server.
        there: Duration,
        /// The way of the error.
        back: Duration,
        /// The server's words.
        message: &'static str,
    },
}

/// What becomes of the bytes that are on their way when a connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wreck {
    /// What would have arrived within this time still does.
    pub arrives: Duration,
    /// So much later than it would have.
    pub extra: Duration,
}

/// The decisions of one run.
pub struct Plan {
    random: fastrand::Rng,
    timeout: Duration,
    /// How much worse than usual it is.
    severity: f64,
    calm: bool,
}

/// Refusals of a server that is not well, or not willing.
const REFUSALS: [&str; 4] = [
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOPERM No permissions to access a key",
    "OOM command not allowed when used memory > 'maxmemory'.",
];

impl Plan {
    /// The plan of `seed`, for clients that wait `response_timeout` for an answer.
    pub fn new(seed: u64, timeout: Duration) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let severity = [0.2, 1.0, 1.0, 4.0][random.usize(..4)];
        Plan { random, timeout, severity, calm: false }
    }

    /// From here on nothing goes wrong any more.
    pub fn calm(&mut self) {
        self.calm = true;
    }

    /// Whether everything goes well by now.
    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// The random numbers of this plan, for what is beside the network.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// True so many times in a thousand on an average day; never in calm weather.
    fn happens(&mut self, per_mille: f64) -> bool {
        !self.calm && self.random.f64() * 1000.0 < per_mille * self.severity
    }

    fn within(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.f64())
    }

    /// Around `mean`, never the same twice.
    fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.random.f64()).ln())
    }

    /// How long one way takes.
    pub fn way(&mut self) -> Duration {
        if self.happens(5.0) {
            // A retransmission, a full buffer: sometimes longer than anybody waits.
            return self.within(self.timeout * 3 / 2);
        }
        let most = if self.random.u8(..4) == 0 { 4000 } else { 800 };
        Duration::from_micros(self.random.u64(50..most))
    }

    /// What becomes of the next request.
    pub fn fate(&mut self) -> Fate {
        let (there, back) = (self.way(), self.way());
        if !self.happens(25.0) {
            return Fate::Plain { there, back };
        }
        match self.random.u8(..11) {
            0..=1 => Fate::RequestLost,
            2..=4 => Fate::ReplyLost { there },
            5..=6 => Fate::Late { by: self.lateness() },
            7..=8 => Fate::Twice { there, again: self.lateness() },
            _ => Fate::Refused { there, back, message: REFUSALS[self.random.usize(..REFUSALS.len())] },
        }
    }

    /// Whether, and how soon, a connection is lost that holds a request back; otherwise the client waits out its time.
    pub fn notices_soon(&mut self) -> Option<Duration> {
        let most = Duration::from_millis(40);
        self.random.bool().then(|| self.within(most))
    }

    /// Around the time limit of requests; now and then far beyond.
    fn lateness(&mut self) -> Duration {
        match self.random.u8(..8) {
            0 => self.timeout * 10,
            1..=3 => self.timeout - Duration::from_millis(2) + self.within(Duration::from_millis(4)),
            _ => self.within(self.timeout * 2),
        }
    }

    /// Whether a message that was published is lost on one connection, without a word.
    pub fn loses_message(&mut self) -> bool {
        self.happens(10.0)
    }

    /// Whether a subscription is denied; `again` is one for what is subscribed already, which is rare.
    pub fn denies_subscription(&mut self, again: bool) -> bool {
        self.happens(if again { 500.0 } else { 5.0 })
    }

    /// What becomes of what is on its way when a connection is lost.
    pub fn wreck(&mut self) -> Wreck {
        let arrives = if self.random.bool() { Duration::ZERO } else { self.within(self.timeout) };
        let extra = if self.random.bool() { Duration::ZERO } else { self.lateness() };
        Wreck { arrives, extra }
    }

    /// How long there is no connection after a loss.
    pub fn outage(&mut self) -> Duration {
        if self.calm {
            return Duration::from_millis(20);
        }
        match self.random.u8(..12) {
            // Longer than the patience of a call.
            0 => self.within(self.timeout * 8),
            1..=4 => self.within(self.timeout),
            _ => self.within(Duration::from_millis(60)),
        }
    }

    /// When a connection for requests is lost next.
    pub fn next_loss(&mut self) -> Duration {
        self.spell(Duration::from_millis(1500))
    }

    /// When a subscriber connection is lost next.
    pub fn next_gap(&mut self) -> Duration {
        self.spell(Duration::from_millis(1500))
    }

    /// When the server is next started again, empty.
    pub fn next_restart(&mut self) -> Duration {
        self.spell(Duration::from_secs(20))
    }

    fn spell(&mut self, mean: Duration) -> Duration {
        self.around(mean.div_f64(self.severity))
    }
}
