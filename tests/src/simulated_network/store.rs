//! The memory of a simulated server: hashes with lifetimes, and the subscribers of channels.
//!
//! Each method is one Redis command as the lock scripts use it. While a script runs, the time used
//! for expiry is fixed, and [`Store::time`] reads the clock again, as on a real server.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// The keys of one server, and the subscriptions on its connections.
#[derive(Default)]
pub struct Store {
    keys: BTreeMap<Bytes, Entry>,
    listeners: BTreeMap<Bytes, BTreeSet<usize>>,
    /// Microseconds since 1970 by the server's clock.
    now: u64,
    published: Vec<Message>,
}

#[derive(Clone, Default)]
struct Entry {
    /// The fields in the order of their insertion, as in a small hash of a real server.
    fields: Vec<(Bytes, Bytes)>,
    /// The last time at which the key exists, in milliseconds since 1970.
    expires: Option<i64>,
}

/// A published message, and its subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: Bytes,
    /// The payload.
    pub payload: Bytes,
    /// The connections that received the message.
    pub to: Vec<usize>,
}

impl Store {
    /// Sets the server's clock, and removes expired keys.
    pub fn set_time(&mut self, micros: u64) {
        self.now = micros;
        let now = self.millis();
        self.keys.retain(|_, entry| entry.expires.is_none_or(|last| now <= last));
    }

    /// Removes all data, as a restart without a dump does.
    pub fn restart(&mut self) {
        self.keys.clear();
        self.listeners.clear();
    }

    /// `TIME`, in microseconds since 1970.
    pub fn time(&self) -> u64 {
        self.now
    }

    fn millis(&self) -> i64 {
        i64::try_from(self.now / 1000).unwrap_or(i64::MAX)
    }

    /// `EXISTS`.
    pub fn exists(&self, key: &Bytes) -> bool {
        self.keys.contains_key(key)
    }

    /// `HEXISTS`.
    pub fn hexists(&self, key: &Bytes, field: &Bytes) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.fields.iter().any(|(name, _)| name == field))
    }

    /// `HSET` of one field.
    pub fn hset(&mut self, key: &Bytes, field: &Bytes, value: &'static [u8]) {
        let entry = self.keys.entry(key.clone()).or_default();
        let value = Bytes::from_static(value);
        match entry.fields.iter_mut().find(|(name, _)| name == field) {
            Some((_, old)) => *old = value,
            None => entry.fields.push((field.clone(), value)),
        }
    }

    /// `SET` of a key without fields, with `PX`.
    pub fn set_px(&mut self, key: &Bytes, millis: i64) {
        let expires = Some(self.millis() + millis);
        self.keys.insert(key.clone(), Entry { fields: Vec::new(), expires });
    }

    /// `HDEL` of one field: returns the number of removed fields. An empty hash is removed.
    pub fn hdel(&mut self, key: &Bytes, field: &Bytes) -> i64 {
        let Some(entry) = self.keys.get_mut(key) else { return 0 };
        let before = entry.fields.len();
        entry.fields.retain(|(name, _)| name != field);
        let gone = before - entry.fields.len();
        if entry.fields.is_empty() {
            self.keys.remove(key);
        }
        i64::from(gone == 1)
    }

    /// `HGETALL`.
    pub fn hgetall(&self, key: &Bytes) -> Vec<(Bytes, Bytes)> {
        self.keys.get(key).map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    /// `PTTL`: milliseconds left, -1 without a lifetime, -2 if the key does not exist.
    pub fn pttl(&self, key: &Bytes) -> i64 {
        let Some(entry) = self.keys.get(key) else { return -2 };
        entry.expires.map_or(-1, |last| last - self.millis())
    }

    /// `PEXPIRE`. A time in the past deletes the key.
    pub fn pexpire(&mut self, key: &Bytes, millis: i64) {
        let last = self.millis() + millis;
        if millis <= 0 {
            self.keys.remove(key);
        } else if let Some(entry) = self.keys.get_mut(key) {
            entry.expires = Some(last);
        }
    }

    /// `PUBLISH`: returns the number of subscribers.
    pub fn publish(&mut self, channel: &[u8], payload: impl Into<Bytes>) -> i64 {
        let channel = Bytes::copy_from_slice(channel);
        let to: Vec<_> = self.listeners.get(&channel).into_iter().flatten().copied().collect();
        let reached = i64::try_from(to.len()).unwrap_or(i64::MAX);
        self.published.push(Message { channel, payload: payload.into(), to });
        reached
    }

    /// Returns the messages since the last call.
    pub fn take_published(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.published)
    }

    /// `SUBSCRIBE` on a connection.
    pub fn subscribe(&mut self, connection: usize, channel: Bytes) {
        self.listeners.entry(channel).or_default().insert(connection);
    }

    /// Whether a connection has subscribed to the channel.
    pub fn is_subscribed(&self, connection: usize, channel: &Bytes) -> bool {
        self.listeners.get(channel).is_some_and(|listeners| listeners.contains(&connection))
    }

    /// `UNSUBSCRIBE` on a connection.
    pub fn unsubscribe(&mut self, connection: usize, channel: &Bytes) {
        if let Some(listeners) = self.listeners.get_mut(channel) {
            listeners.remove(&connection);
            if listeners.is_empty() {
                self.listeners.remove(channel);
            }
        }
    }

    /// Ends all subscriptions of a connection.
    pub fn hang_up(&mut self, connection: usize) {
        self.listeners.retain(|_, listeners| {
            listeners.remove(&connection);
            !listeners.is_empty()
        });
    }

    /// Returns the keys with the names of their fields.
    pub fn keys(&self) -> Vec<(Bytes, Vec<Bytes>)> {
        let fields = |entry: &Entry| entry.fields.iter().map(|(name, _)| name.clone()).collect();
        self.keys.iter().map(|(key, entry)| (key.clone(), fields(entry))).collect()
    }

    /// Returns the channels with subscribers.
    pub fn channels(&self) -> Vec<Bytes> {
        self.listeners.keys().cloned().collect()
    }
}
