//! The server: one key, and the scripts that read and write it, one at a time.

use super::Timer;

/// Who a key says it is held by: a process and one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// The process, by its place in the state.
    pub process: u8,
    /// Which of its attempts.
    pub serial: u8,
}

/// The lock's key while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The holder's field.
    pub holder: Field,
    /// When the key goes away by itself. Always ahead: a key whose lease ended is no key.
    pub expiry: Timer,
}

/// What a script is asked to do for one field. Leases only lengthen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Take the key if it is free or ours already.
    Acquire {
        /// Lease in ticks.
        lease: u8,
        /// The first instant at which this copy is refused.
        refused_from: Timer,
        /// Take it whoever has it, and tell who had it.
        by_force: bool,
    },
    /// Lengthen the lease of a key that is ours.
    Lengthen {
        /// Lease in ticks.
        lease: u8,
    },
    /// Lengthen the lease of a stolen key that is still ours, and read the time: the taker's token.
    Confirm {
        /// Lease in ticks.
        lease: u8,
    },
    /// Delete the key if it is ours.
    Release,
}

/// What a script replied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The key is ours.
    Granted {
        /// How long ago: the token is the server's time less this.
        lag: i8,
    },
    /// The key is somebody else's.
    Busy,
    /// The copy came after its `not_after`; nothing was looked at.
    TooLate,
    /// The lease of our key is lengthened.
    Kept,
    /// The key is not ours.
    Gone,
    /// The key was ours and is free, or it was not ours.
    Released,
}

/// The one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// The lock's key, if it exists.
    pub key: Option<Key>,
    /// The time of this instant was given as a token. The next script that reads it runs later.
    pub time_is_taken: bool,
}

impl Server {
    /// Who the key says it is held by.
    pub fn holder(&self) -> Option<Field> {
        self.key.map(|key| key.holder)
    }

    /// Runs one script; also says who lost the key to it by force.
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

    /// Lets one tick pass; a lease that ends takes the key with it.
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
