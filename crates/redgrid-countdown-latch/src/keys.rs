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
        let (round, over) = (beside("redgrid_latch", &count), beside("redgrid_latch__channel", &count));
        Ok(Keys { name, count, round, over, channel })
    }
}

/// Put behind what belongs to a name that is a hash tag and nothing else.
const TAG: &[u8] = b":tag";

/// What belongs to a latch, in its slot, and to no other: `a` and `{a}` would have the same. The names that the addition would
/// meet, `{a}:tag` and so on, have one more of it themselves.
fn beside(prefix: &str, key: &Bytes) -> Bytes {
    let own = companion(prefix, key);
    let rest = key.strip_prefix(b"{").and_then(|key| Some(&key[key.iter().position(|&byte| byte == b'}')? + 1..]));
    match rest.is_some_and(|rest| rest.chunks(TAG.len()).all(|part| part == TAG)) {
        true => [&own[..], TAG].concat().into(),
        false => own,
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
    use redgrid_core::name::share_a_slot;

    #[test]
    fn the_channel_is_redissons_wherever_redisson_can_use_the_name() {
        for name in ["a", "a{b}", "x{y}z"] {
            let key = Bytes::from_static(name.as_bytes());
            let expected = format!("redisson_countdownlatch__channel__{{{name}}}");
            assert_eq!(redissons(&key, |_| true).unwrap(), expected, "without slots");
            let in_a_cluster = redissons(&key, |channel| share_a_slot(channel, &key));
            assert_eq!(in_a_cluster.is_some(), name == "a");
            assert!(share_a_slot(&beside("redgrid_latch__channel", &key), &key), "{name}");
        }
    }

    #[test]
    fn no_two_latches_have_a_key_in_common() {
        let names = ["a", "{a}", "{a}:tag", "{a}:tag:tag", "{a}:ta", "{a}b", "b{a}", "{a}{a}", "{a}:tag}", "a:tag"];
        let mut seen = std::collections::HashSet::new();
        for name in names {
            let key = Bytes::from_static(name.as_bytes());
            let round = beside("redgrid_latch", &key);
            assert!(share_a_slot(&round, &key), "{name}");
            assert!(seen.insert(round.clone()), "{name}: {round:?}");
        }
        assert_eq!(beside("redgrid_latch", &Bytes::from_static(b"a")), "redgrid_latch:{a}");
        assert_eq!(beside("redgrid_latch", &Bytes::from_static(b"{a}")), "redgrid_latch:{a}:tag");
    }
}
