//! The server: one key, and the scripts that read and write it, one at a time.

use super::{Rules, Timer};

/// The holder that a key names: a client and one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field {
    /// Index of the client.
    pub client: u8,
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
    /// How often the acquire script has added the field; always 1 unless the script counts.
    pub count: u8,
}

/// The change that a script makes to one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// Takes the key if it is free or already holds the field.
    Acquire {
        /// Lease in ticks.
        lease: u8,
        /// The first instant, by the server's clock, at which this copy is refused.
        refused_from: Timer,
    },
    /// Lengthens the lease of a key that holds the field.
    Renew {
        /// Lease in ticks.
        lease: u8,
    },
    /// Sets the lease of a key that holds the field, even to less than the remaining lease.
    Extend {
        /// Lease in ticks.
        lease: u8,
        /// The first instant, by the server's clock, at which this copy is refused.
        refused_from: Timer,
    },
    /// Deletes the key if it holds the field.
    Release,
}

/// The reply of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The key holds the field.
    Granted {
        /// Fencing token: it rises with every script that grants.
        token: u8,
    },
    /// The key holds another field.
    Busy,
    /// The copy arrived after its `not_after`; the script did nothing.
    TooLate,
    /// Whether a renewal or an extend found its field in the key.
    Kept(bool),
    /// Whether a release found its field in the key.
    Released(bool),
}

/// The server; there is only one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// The lock's key, if it exists.
    pub key: Option<Key>,
    /// The last token of a grant.
    pub token: u8,
}

impl Server {
    /// Runs one script.
    pub fn execute(&mut self, rules: &Rules, field: Field, order: Order) -> Answer {
        match order {
            Order::Acquire { refused_from, .. } | Order::Extend { refused_from, .. } if !refused_from.is_ahead() => {
                Answer::TooLate
            }
            Order::Acquire { lease, .. } => self.acquire(rules, field, Timer::after(lease)),
            Order::Renew { lease } => self.renew(rules, field, Timer::after(lease)),
            Order::Extend { lease, .. } => self.extend(field, Timer::after(lease)),
            Order::Release => self.release(rules, field),
        }
    }

    /// Returns the field in the key.
    pub fn holder(&self) -> Option<Field> {
        self.key.map(|key| key.holder)
    }

    /// Lets one tick pass, and removes an expired key.
    pub fn tick(&mut self, rules: &Rules) {
        if let Some(key) = &mut self.key {
            key.expiry.tick();
            if !key.expiry.is_ahead() {
                self.delete(rules);
            }
        }
    }

    /// Removes the key.
    pub fn delete(&mut self, rules: &Rules) {
        self.key = None;
        if !rules.token_outlives_the_key {
            self.token = 0;
        }
    }

    fn acquire(&mut self, rules: &Rules, field: Field, expiry: Timer) -> Answer {
        match &mut self.key {
            Some(key) if key.holder != field => return Answer::Busy,
            Some(key) => {
                key.expiry = if rules.acquire_never_shortens { key.expiry.max(expiry) } else { expiry };
                key.count += u8::from(!rules.acquire_sets);
            }
            None => self.key = Some(Key { holder: field, expiry, count: 1 }),
        }
        self.token += 1;
        Answer::Granted { token: self.token }
    }

    fn renew(&mut self, rules: &Rules, field: Field, expiry: Timer) -> Answer {
        match &mut self.key {
            Some(key) if key.holder == field => {
                key.expiry = if rules.renewal_never_shortens { key.expiry.max(expiry) } else { expiry };
                Answer::Kept(true)
            }
            _ if !rules.renewal_compares => {
                self.key = Some(Key { holder: field, expiry, count: 1 });
                Answer::Kept(true)
            }
            _ => Answer::Kept(false),
        }
    }

    fn extend(&mut self, field: Field, expiry: Timer) -> Answer {
        match &mut self.key {
            Some(key) if key.holder == field => {
                key.expiry = expiry;
                Answer::Kept(true)
            }
            _ => Answer::Kept(false),
        }
    }

    fn release(&mut self, rules: &Rules, field: Field) -> Answer {
        match &mut self.key {
            Some(key) if key.holder == field => {
                key.count -= 1;
                if key.count == 0 {
                    self.delete(rules);
                }
                Answer::Released(true)
            }
            _ => Answer::Released(false),
        }
    }
}

impl Order {
    /// Lets one tick of the server's clock pass.
    pub fn tick(&mut self) {
        if let Self::Acquire { refused_from, .. } | Self::Extend { refused_from, .. } = self {
            refused_from.tick();
        }
    }
}
