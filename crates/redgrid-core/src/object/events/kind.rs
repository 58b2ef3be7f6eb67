//! What can happen to a key, by the server's names for it, and what it has to be told for that.

use std::borrow::Cow;

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// It was not there before: `new`. Redis has it from 7.0 on, by the letter `n`. The command that made it is an [`Updated`](Kind::Updated)
    /// behind it.
    #[doc(alias = "NewObjectListener")]
    Created,
    /// A command changed its value; [`Event::command`](super::Event::command) says which.
    #[doc(alias = "SetObjectListener")]
    #[doc(alias = "IncrByListener")]
    #[doc(alias = "MapPutListener")]
    #[doc(alias = "MapRemoveListener")]
    #[doc(alias = "MapExpiredListener")]
    #[doc(alias = "ListAddListener")]
    #[doc(alias = "ListInsertListener")]
    #[doc(alias = "ListSetListener")]
    #[doc(alias = "ListRemoveListener")]
    #[doc(alias = "ListTrimListener")]
    #[doc(alias = "SetAddListener")]
    #[doc(alias = "SetRemoveListener")]
    #[doc(alias = "ScoredSortedSetAddListener")]
    #[doc(alias = "ScoredSortedSetRemoveListener")]
    Updated,
    /// It was deleted, or lost its last element. When a slot moves, its former node says the same of its keys.
    #[doc(alias = "DeletedObjectListener")]
    Deleted,
    /// Its life was over, and the server has deleted it.
    #[doc(alias = "ExpiredObjectListener")]
    Expired,
    /// The server deleted it for want of memory.
    Evicted,
    /// It was given another name (`rename_from`), or is what another was (`rename_to`).
    Renamed,
    /// It went to another database of the server, or came from there.
    Moved,
    /// The end of its life was set or taken away: `expire`, `persist`.
    LifetimeSet,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Created,
        Kind::Updated,
        Kind::Deleted,
        Kind::Expired,
        Kind::Evicted,
        Kind::Renamed,
        Kind::Moved,
        Kind::LifetimeSet,
    ];

    /// What an event of this name is.
    pub(super) fn of(command: &str) -> Kind {
        match command {
            "new" => Kind::Created,
            "del" => Kind::Deleted,
            "expired" => Kind::Expired,
            "evicted" => Kind::Evicted,
            "rename_from" | "rename_to" => Kind::Renamed,
            "move_from" | "move_to" => Kind::Moved,
            "expire" | "persist" => Kind::LifetimeSet,
            _ => Kind::Updated,
        }
    }
}

/// The events of servers by the letter of `notify-keyspace-events` with which they are told. Source: redis.io, "Redis keyspace
/// notifications", and the calls of `notifyKeyspaceEvent` of Redis 7.0 to 8.2 and Valkey 8.
const TOLD: [(char, &[&str]); 9] = [
    ('g', &["del", "rename_from", "rename_to", "move_from", "move_to", "copy_to", "restore", "expire", "persist"]),
    ('$', &["set", "setrange", "incrby", "incrbyfloat", "append", "setbit", "setnx", "pfadd"]),
    ('l', &["lpush", "rpush", "lpop", "rpop", "linsert", "lset", "lrem", "ltrim", "sortstore"]),
    ('s', &["sadd", "srem", "spop", "sinterstore", "sunionstore", "sdiffstore"]),
    ('h', &["hset", "hincrby", "hincrbyfloat", "hdel", "hexpire", "hexpired", "hpersist"]),
    (
        'z',
        &[
            "zadd",
            "zincr",
            "zrem",
            "zremrangebyscore",
            "zremrangebyrank",
            "zremrangebylex",
            "zpopmin",
            "zpopmax",
            "zdiffstore",
            "zinterstore",
            "zunionstore",
            "zrangestore",
            "geosearchstore",
        ],
    ),
    ('x', &["expired"]),
    ('e', &["evicted"]),
    ('n', &["new"]),
];

/// The letters for which `A` stands.
const COMMON: &str = "g$lshzxetd";

/// Which events are wanted: [`Kind`]s, and the server's own names of them.
///
/// ```
/// use redgrid_core::object::events::{Kind, Kinds};
///
/// let _one: Kinds = Kind::Expired.into();
/// let _two: Kinds = [Kind::Expired, Kind::Deleted].into();
/// let _of_a_map = Kinds::named(["hset", "hdel"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kinds {
    kinds: Vec<Kind>,
    named: Vec<Cow<'static, str>>,
}

impl Kinds {
    /// All that there are. [`Kind::Created`] among them: servers before Redis 7.0 can not tell that.
    pub fn all() -> Self {
        Kind::ALL.into()
    }

    /// All but [`Kind::Created`]: what `KEA` of a server's settings has it tell.
    pub fn changes() -> Self {
        Kinds { kinds: Kind::ALL[1..].to_vec(), named: Vec::new() }
    }

    /// Those that the server calls so: `hset`, `rpush`. Of one that is not known here nobody finds out whether the server tells it.
    pub fn named<N: Into<Cow<'static, str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Kinds { kinds: Vec::new(), named: names.into_iter().map(Into::into).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.named.is_empty()
    }

    /// A name that can not be one.
    pub(super) fn misnamed(&self) -> Option<&str> {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        self.named.iter().map(|name| &**name).find(|name| !is_name(name))
    }

    pub(super) fn has(&self, command: &str) -> bool {
        self.kinds.contains(&Kind::of(command)) || self.named.iter().any(|name| name == command)
    }

    /// The names of all events that are wanted, as far as they are known.
    pub(super) fn names(&self) -> Vec<Cow<'static, str>> {
        let known = TOLD.iter().flat_map(|(_, names)| *names).filter(|name| self.has(name));
        let known = known.map(|name| Cow::Borrowed(*name));
        let mut names: Vec<_> = known.chain(self.named.iter().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The letters that `notify-keyspace-events` has to have, `space` before them: what tells by key, or by event.
    pub(super) fn letters(&self, space: char) -> String {
        let wanted = |names: &[&str]| names.iter().any(|name| self.has(name));
        [space].into_iter().chain(TOLD.iter().filter(|(_, names)| wanted(names)).map(|(letter, _)| *letter)).collect()
    }
}

impl From<Kind> for Kinds {
    fn from(kind: Kind) -> Self {
        [kind].into()
    }
}

impl<const N: usize> From<[Kind; N]> for Kinds {
    fn from(kinds: [Kind; N]) -> Self {
        Kinds { kinds: kinds.into(), named: Vec::new() }
    }
}

/// Which of the letters a server's setting lacks.
pub(super) fn lacking(needed: &str, set: &str) -> String {
    let has = |letter: char| set.contains(letter) || (COMMON.contains(letter) && set.contains('A'));
    needed.chars().filter(|letter| !has(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_lacks_is_told_by_its_letters() {
        let letters = |kinds: Kinds| kinds.letters('K');
        assert_eq!(letters(Kind::Expired.into()), "Kx");
        assert_eq!(letters([Kind::Deleted, Kind::Created].into()), "Kgn");
        assert_eq!(letters(Kinds::named(["hset", "rpush"])), "Klh");
        assert_eq!(letters(Kinds::changes()), "Kg$lshzxe");
        assert_eq!(lacking("Kgxn", ""), "Kgxn");
        assert_eq!(lacking("Kgxn", "AKE"), "n");
        assert_eq!(lacking("Kg$", "Kg"), "$");
        assert_eq!(lacking("Kx", "xK"), "");
    }

    #[test]
    fn events_are_known_by_their_names() {
        let both: Kinds = [Kind::Renamed, Kind::Evicted].into();
        assert_eq!(both.names(), ["evicted", "rename_from", "rename_to"]);
        assert_eq!(Kinds::named(["hset", "json.set"]).names(), ["hset", "json.set"]);
        assert!(Kinds::from(Kind::Updated).has("json.set") && !Kinds::from(Kind::Updated).has("del"));
        for (_, names) in TOLD {
            assert!(names.iter().all(|name| Kind::ALL.contains(&Kind::of(name))));
        }
        assert_eq!(Kinds::named(["a b"]).misnamed(), Some("a b"));
        assert_eq!(Kinds::all().misnamed(), None);
    }
}
