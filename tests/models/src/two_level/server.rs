//! The server: one key, and the scripts that read and write it, one at a time.

use super::Timer;

/// The holder that a key names: a process and one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// Index of the process.
    pub process: u8,
    /// Number of the attempt.
    pub serial: u8,
}

/// The lock's key while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The holder's field.
    pub holder: Field,
    /// When the key expires. The instant is always in the future: an expired key does not exist.
    pub expiry: Timer,
}

/// The change that a script makes to one field. Leases are only lengthened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Takes the key if it is free or already holds the field.
    Acquire {
        /// Lease in ticks.
        lease: u8,
        /// The first instant at which this copy is refused.
        refused_from: Timer,
        /// Takes the key from any holder, and notifies the former holder.
        by_force: bool,
    },
    /// Lengthens the lease of a key that holds the field.
    Lengthen {
        /// Lease in ticks.
        lease: u8,
    },
    /// Lengthens the lease of a key that was taken by force, and reads the time, which becomes the
    /// token of the new holder.
    Confirm {
        /// Lease in ticks.
        lease: u8,
    },
    /// Deletes the key if it holds the field.
    Release,
}

/// The reply of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The key holds the field.
    Granted {
        /// The age of the grant: the token is the server's time minus this.
        lag: i8,
    },
    /// The key holds another field.
    Busy,
    /// The copy arrived after its `not_after`; the script did nothing.
    TooLate,
    /// The lease of the key was lengthened.
    Kept,
    /// The key does not hold the field.
    Gone,
    /// The release was executed: the key is free, or it held another field.
    Released,
}

/// The server; there is only one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// The lock's key, if it exists.
    pub key: Option<Key>,
    /// Whether the current time was issued as a token. The next script that reads the time must run
    /// later.
    pub time_is_taken: bool,
}

impl Server {
    /// Returns the field in the key.
    pub fn holder(&self) -> Option<Field> {
        self.key.map(|key| key.holder)
    }

    /// Runs one script; also returns the field that lost the key by force.
    pub fn execute(&mut self, field: Field, order: Order) -> (Answer, Option<Field>) {
        match order {
            Order::Acquire { refused_from, .. } if !refused_from.is_ahead() => (Answer::TooLate, None),
            Order::Acquire { lease, by_force, .. } => self.acquire(field, lease, by_force),
            Order::Lengthen { lease } => (if self.lengthen(field, lease) { Answer::Kept } else { Answer::Gone }, None),
            Order::Confirm { lease } if self.lengthen(field, lease) => (Answer::Granted { lag: 0 }, None),
            Order::Confirm { .. } => (Answer::Gone, None),
            Order::Release => {
                if self.holder() == Some(field) {
                    self.key = None;
                }
                (Answer::Released, None)
            }
        }
    }

    /// Lets one tick pass, and removes an expired key.
    pub fn tick(&mut self) {
        self.time_is_taken = false;
        if let Some(key) = &mut self.key {
            key.expiry.tick();
            if !key.expiry.is_ahead() {
                self.key = None;
            }
        }
    }

    fn acquire(&mut self, field: Field, lease: u8, by_force: bool) -> (Answer, Option<Field>) {
        let other = self.holder().filter(|&holder| holder != field);
        if other.is_some() && !by_force {
            return (Answer::Busy, None);
        }
        if other.is_some() {
            self.key = None;
        }
        let left = self.key.map_or(Timer::PAST, |key| key.expiry);
        self.key = Some(Key { holder: field, expiry: left.max(Timer::after(lease)) });
        (Answer::Granted { lag: 0 }, other)
    }

    fn lengthen(&mut self, field: Field, lease: u8) -> bool {
        let Some(key) = self.key.as_mut().filter(|key| key.holder == field) else { return false };
        key.expiry = key.expiry.max(Timer::after(lease));
        true
    }
}
