//! The keys and channels of a latch.

use bytes::Bytes;
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::{Client, Name};

#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) name: Name,
    pub(crate) count: Bytes,
    pub(crate) round: Bytes,
    /// Where it is told which round is over.
    pub(crate) over: Bytes,
    /// Redisson's channel, where Redisson can use the name.
    pub(crate) channel: Option<Bytes>,
}

impl Keys {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>) -> Result<Keys, InvalidName> {
        let name = Name::new(name)?;
        let count = client.key(&name);
        let channel = redissons(&count, |channel| client.slot(channel) == client.slot(&count));
        let (round, over) = (companion("redgrid_latch", &count), companion("redgrid_latch__channel", &count));
        Ok(Keys { name, count, round, over, channel })
    }
}

/// Redisson puts braces around the name whatever it is. In a cluster that is another slot for a name with a hash tag, and it can
/// not use the name there.
fn redissons(key: &Bytes, is_in_its_slot: impl Fn(&[u8]) -> bool) -> Option<Bytes> {
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
            assert_eq!(redissons(&key, |_| true).unwrap(), expected, "without slots");
            let in_a_cluster = redissons(&key, |channel| same_slot(channel, &key));
            assert_eq!(in_a_cluster.is_some(), name == "a");
            assert!(same_slot(&companion("redgrid_latch__channel", &key), &key), "{name}");
        }
    }
}
