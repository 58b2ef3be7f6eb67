//! The keys and channels of a latch.

use bytes::Bytes;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::{Client, Name};

#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) name: Name,
    pub(crate) count: Bytes,
    pub(crate) round: Bytes,
    /// Channel with the numbers of rounds that have ended.
    pub(crate) over: Bytes,
    /// Redisson's channel, if Redisson can use the name.
    pub(crate) channel: Option<Bytes>,
}

impl Keys {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Result<Keys, InvalidName> {
        let name = Name::new(name)?;
        let count = client.key(&name);
        let channel = redisson_channel(&count, |channel| client.slot(channel) == client.slot(&count));
        let round = companion("redgrid_latch", &count);
        let over = companion("redgrid_latch__channel", &count);
        Ok(Keys { name, count, round, over, channel })
    }
}

/// Returns Redisson's channel. Redisson puts braces around any name. In a cluster, a name with a
/// hash tag then hashes to another slot, so Redisson cannot use it.
fn redisson_channel(key: &Bytes, is_in_its_slot: impl Fn(&[u8]) -> bool) -> Option<Bytes> {
    let channel = [b"redisson_countdownlatch__channel__{", &key[..], b"}"].concat();
    is_in_its_slot(&channel).then(|| channel.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redgrid_core::name::same_slot;

    #[test]
    fn the_channel_is_redissons_wherever_redisson_can_use_the_name() {
        for name in ["a", "a{b}", "x{y}z"] {
            let key = Bytes::from_static(name.as_bytes());
            let expected = format!("redisson_countdownlatch__channel__{{{name}}}");
            assert_eq!(redisson_channel(&key, |_| true).unwrap(), expected, "without slots");
            let in_a_cluster = redisson_channel(&key, |channel| same_slot(channel, &key));
            assert_eq!(in_a_cluster.is_some(), name == "a");
            assert!(same_slot(&companion("redgrid_latch__channel", &key), &key), "{name}");
        }
    }
}
