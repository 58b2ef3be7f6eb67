//! The keys and the channel of a limiter.

use bytes::Bytes;
use redgrid_core::name::{InvalidName, companion, suffixed};
use redgrid_core::{Client, Name};

/// The name, keys and channel of a [`RateLimiter`](crate::RateLimiter).
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) name: Name,
    /// The keys in the order of the scripts' KEYS. The first is the hash, whose slot decides the
    /// server of all.
    pub(crate) all: [Bytes; 6],
    /// The channel on which changes are published.
    pub(crate) channel: Bytes,
}

impl Keys {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Result<Keys, InvalidName> {
        let name = Name::new(name)?;
        let all = of(&client.key(&name), client.id());
        let channel = companion("redgrid_rate__channel", &all[0]);
        Ok(Keys { name, all, channel })
    }

    /// Returns the key of the hash.
    pub(crate) fn config(&self) -> &Bytes {
        &self.all[0]
    }
}

/// Returns the keys. They have Redisson's names, except the last one, which only redgrid has.
fn of(key: &Bytes, client: &str) -> [Bytes; 6] {
    let (value, permits) = (suffixed(key, "value"), suffixed(key, "permits"));
    let (own_value, own_permits) = (suffixed(&value, client), suffixed(&permits, client));
    let client_rate = suffixed(&companion("redgrid_rate", key), client);
    [key.clone(), value, own_value, permits, own_permits, client_rate]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_redissons_and_in_one_slot() {
        let expected = ["a", "{a}:value", "{a}:value:id", "{a}:permits", "{a}:permits:id", "redgrid_rate:{a}:id"];
        assert_eq!(of(&Bytes::from_static(b"a"), "id"), expected.map(Bytes::from));
        let tagged = of(&Bytes::from_static(b"x{y}z"), "id");
        assert_eq!((&tagged[2][..], &tagged[5][..]), (&b"x{y}z:value:id"[..], &b"redgrid_rate:x{y}z:id"[..]));
    }
}
