//! Makes all random decisions of a simulated network, from one seed.

use std::time::Duration;

/// How the network treats one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Executed and answered, in the order of its connection's requests.
    Plain {
        /// Time to the server.
        there: Duration,
        /// Time of the reply to the client.
        back: Duration,
    },
    /// The request does not reach the server.
    RequestLost,
    /// Executed, and its reply is lost.
    ReplyLost {
        /// Time to the server.
        there: Duration,
    },
    /// Executed late, after later requests and after the loss of its connection; the reply is lost.
    Late {
        /// Time to the server.
        by: Duration,
    },
    /// Executed twice, and both replies are lost.
    Twice {
        /// Time of the first copy to the server.
        there: Duration,
        /// Time of the second copy, independent of the order of other requests.
        again: Duration,
    },
    /// The server answers with an error and does nothing.
    Refused {
        /// Time to the server.
        there: Duration,
        /// Time of the error to the client.
        back: Duration,
        /// The error message.
        message: &'static str,
    },
}

/// The fate of the bytes in flight on a lost connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wreck {
    /// Bytes that would have arrived within this time still arrive.
    pub arrives: Duration,
    /// The additional delay of these bytes.
    pub extra: Duration,
}

/// The decisions of one run.
pub struct Plan {
    random: fastrand::Rng,
    timeout: Duration,
    /// A factor by which all fault rates are multiplied.
    severity: f64,
    calm: bool,
    /// Whether each direction takes only a fraction of a millisecond.
    near: bool,
}

/// Replies of a server that is not ready, used for rejections.
const REFUSALS: [&str; 4] = [
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "NOPERM No permissions to access a key",
    "OOM command not allowed when used memory > 'maxmemory'.",
];

impl Plan {
    /// Creates the plan of `seed`, for clients with this response timeout.
    pub fn new(seed: u64, timeout: Duration) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let severity = [0.2, 1.0, 1.0, 4.0][random.usize(..4)];
        Plan { random, timeout, severity, calm: false, near: false }
    }

    /// Creates a plan without faults, for a server close to its clients.
    pub fn near(seed: u64, timeout: Duration) -> Self {
        Plan { calm: true, near: true, ..Plan::new(seed, timeout) }
    }

    /// Stops all faults.
    pub fn calm(&mut self) {
        self.calm = true;
    }

    /// Whether all faults have stopped.
    pub fn is_calm(&self) -> bool {
        self.calm
    }

    /// Returns the random generator, for decisions outside of the network.
    pub fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// Returns true with a probability of `per_mille` / 1000 at normal severity; never after
    /// `calm`.
    fn happens(&mut self, per_mille: f64) -> bool {
        !self.calm && self.random.f64() * 1000.0 < per_mille * self.severity
    }

    fn within(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.f64())
    }

    /// Returns an exponentially distributed time with this mean.
    fn around(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.random.f64()).ln())
    }

    /// Returns the transmission time of one direction.
    pub fn way(&mut self) -> Duration {
        if self.happens(5.0) {
            // Represents a retransmission or a full buffer: sometimes longer than any timeout.
            return self.within(self.timeout * 3 / 2);
        }
        let is_long = !self.near && self.random.u8(..4) == 0;
        let most = if is_long { 4000 } else { 800 };
        Duration::from_micros(self.random.u64(50..most))
    }

    /// Returns the fate of the next request.
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

    /// Returns when the connection of a delayed or repeated request is lost; `None` if it is not
    /// lost, so that the client times out.
    pub fn notices_soon(&mut self) -> Option<Duration> {
        let most = Duration::from_millis(40);
        self.random.bool().then(|| self.within(most))
    }

    /// Returns a delay around the time limit of requests; sometimes far beyond it.
    fn lateness(&mut self) -> Duration {
        match self.random.u8(..8) {
            0 => self.timeout * 10,
            1..=3 => self.timeout - Duration::from_millis(2) + self.within(Duration::from_millis(4)),
            _ => self.within(self.timeout * 2),
        }
    }

    /// Whether a published message is lost on one connection.
    pub fn loses_message(&mut self) -> bool {
        self.happens(10.0)
    }

    /// Whether a subscription is denied. `again` means that the channel is already subscribed. Such
    /// requests are rare, so they are denied more often.
    pub fn denies_subscription(&mut self, again: bool) -> bool {
        self.happens(if again { 500.0 } else { 5.0 })
    }

    /// Returns what happens to bytes in flight when a connection is lost.
    pub fn wreck(&mut self) -> Wreck {
        let arrives = if self.random.bool() { Duration::ZERO } else { self.within(self.timeout) };
        let extra = if self.random.bool() { Duration::ZERO } else { self.lateness() };
        Wreck { arrives, extra }
    }

    /// Returns how long a client has no connection after a loss.
    pub fn outage(&mut self) -> Duration {
        if self.calm {
            return Duration::from_millis(20);
        }
        match self.random.u8(..12) {
            // Longer than the timeout of a call, in most cases.
            0 => self.within(self.timeout * 8),
            1..=4 => self.within(self.timeout),
            _ => self.within(Duration::from_millis(60)),
        }
    }

    /// Returns the time until the next loss of a request connection.
    pub fn next_loss(&mut self) -> Duration {
        self.spell(Duration::from_millis(1500))
    }

    /// Returns the time until the next loss of a subscriber connection.
    pub fn next_gap(&mut self) -> Duration {
        self.spell(Duration::from_millis(1500))
    }

    /// Returns the time until the next restart without data.
    pub fn next_restart(&mut self) -> Duration {
        self.spell(Duration::from_secs(20))
    }

    fn spell(&mut self, mean: Duration) -> Duration {
        self.around(mean.div_f64(self.severity))
    }
}
