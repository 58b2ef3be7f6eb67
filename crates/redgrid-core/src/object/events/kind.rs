//! The kinds of events, their names on the server, and the server setting that each of them needs.

use std::borrow::Cow;

/// The kind of an event of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The key was created. The server's name of the event is `new`.
    ///
    /// Redis publishes this event from version 7.0 on, if `notify-keyspace-events` has the letter
    /// `n`. The server then also publishes the event of the command that created the key. That
    /// event has the kind [`Updated`](Kind::Updated).
    #[doc(alias = "NewObjectListener")]
    Created,
    /// A command changed the value; [`Event::command`](super::Event::command) names the command.
    ///
    /// A stream for a pattern of names ([`Listen::to`](super::Listen::to)) reports only the events
    /// of built-in commands of Redis and Valkey. Events of a module must be selected by
    /// [name](Kinds::named).
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
    /// The key was deleted, or lost its last element.
    ///
    /// Servers publish nothing for FLUSHDB and FLUSHALL. When a slot of a cluster moves, the node
    /// that had the slot publishes this event for the keys of the slot.
    #[doc(alias = "DeletedObjectListener")]
    Deleted,
    /// The lifetime of the key ended, and the server deleted the key.
    #[doc(alias = "ExpiredObjectListener")]
    Expired,
    /// The server deleted the key to free memory, because its memory limit was reached.
    Evicted,
    /// The key was renamed (`rename_from`), or another key was renamed to the name of this key
    /// (`rename_to`).
    Renamed,
    /// The key was moved to another database of the server (`move_from`), or came from another
    /// database (`move_to`).
    Moved,
    /// The lifetime of the key was set or removed: `expire`, `persist`.
    LifetimeSet,
    /// An event that reports no change, or that accompanies another event.
    ///
    /// These events are `keymiss` (a read found nothing), `overwritten` and `type_changed`. A
    /// stream contains them only if they are selected by [name](Kinds::named).
    Aside,
}

impl Kind {
    /// All kinds except [`Kind::Aside`].
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

    /// Returns the kind of the event with this name.
    pub(super) fn of(command: &str) -> Kind {
        match command {
            "new" => Kind::Created,
            "del" => Kind::Deleted,
            "expired" => Kind::Expired,
            "evicted" => Kind::Evicted,
            "rename_from" | "rename_to" => Kind::Renamed,
            "move_from" | "move_to" => Kind::Moved,
            "expire" | "persist" => Kind::LifetimeSet,
            "keymiss" | "overwritten" | "type_changed" => Kind::Aside,
            _ => Kind::Updated,
        }
    }
}

/// The events of servers, by the letter of `notify-keyspace-events` that enables them.
///
/// Source: redis.io, "Redis keyspace notifications", and the calls of `notifyKeyspaceEvent` of
/// Redis 7.0 to 8.2 and Valkey 8.
const EVENTS_BY_LETTER: [(char, &[&str]); 10] = [
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
            "georadiusstore",
        ],
    ),
    (
        't',
        &[
            "xadd",
            "xdel",
            "xtrim",
            "xsetid",
            "xgroup-create",
            "xgroup-createconsumer",
            "xgroup-delconsumer",
            "xgroup-destroy",
            "xgroup-setid",
        ],
    ),
    ('x', &["expired"]),
    ('e', &["evicted"]),
    ('n', &["new"]),
];

/// The letters for which `A` stands in `notify-keyspace-events`.
const COMMON: &str = "g$lshzxetd";

/// A selection of events: by [`Kind`], and by the server's own names.
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
    /// Selects the events of all kinds except [`Kind::Aside`]. Servers before Redis 7.0 cannot
    /// publish events of the kind [`Kind::Created`].
    pub fn all() -> Self {
        Kind::ALL.into()
    }

    /// Selects the events of [`Kinds::all`] except [`Kind::Created`]. A server with the setting
    /// `KEA` publishes all of these events.
    pub fn changes() -> Self {
        Kinds { kinds: Kind::ALL[1..].to_vec(), named: Vec::new() }
    }

    /// Selects events by the server's names, such as `hset` and `rpush`.
    ///
    /// For a name that redgrid does not know, the stream does not check whether the server
    /// publishes the event.
    pub fn named<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Kinds { kinds: Vec::new(), named: names.into_iter().map(|name| Cow::Owned(name.into())).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.named.is_empty()
    }

    /// Returns a selected name that is not allowed, if there is one.
    pub(super) fn invalid_name(&self) -> Option<&str> {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        self.named.iter().map(|name| &**name).find(|name| !is_name(name))
    }

    pub(super) fn has(&self, command: &str) -> bool {
        self.kinds.contains(&Kind::of(command)) || self.named.iter().any(|name| name == command)
    }

    /// Returns the names of the selected events. These are all names that were given to
    /// [`Kinds::named`], and the names in [`EVENTS_BY_LETTER`] whose kinds are selected.
    pub(super) fn names(&self) -> Vec<Cow<'static, str>> {
        let known = EVENTS_BY_LETTER.iter().flat_map(|(_, names)| *names).filter(|name| self.has(name));
        let known = known.map(|name| Cow::Borrowed(*name));
        let mut names: Vec<_> = known.chain(self.named.iter().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the letters that `notify-keyspace-events` needs: first the letter `space`, then the
    /// letters of the selected events.
    ///
    /// `space` is `K` for one channel per key, or `E` for one channel per event name.
    pub(super) fn letters(&self, space: char) -> String {
        let wanted = |names: &[&str]| names.iter().any(|name| self.has(name));
        [space]
            .into_iter()
            .chain(EVENTS_BY_LETTER.iter().filter(|(_, names)| wanted(names)).map(|(letter, _)| *letter))
            .collect()
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

/// Returns the letters of `needed` that the setting of a server lacks.
pub(super) fn missing_letters(needed: &str, set: &str) -> String {
    let has = |letter: char| set.contains(letter) || (COMMON.contains(letter) && set.contains('A'));
    needed.chars().filter(|letter| !has(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_letters_are_found() {
        let letters = |kinds: Kinds| kinds.letters('K');
        assert_eq!(letters(Kind::Expired.into()), "Kx");
        assert_eq!(letters([Kind::Deleted, Kind::Created].into()), "Kgn");
        assert_eq!(letters(Kinds::named(["hset", "rpush"])), "Klh");
        assert_eq!(letters(Kinds::changes()), "Kg$lshztxe");
        assert!(!Kinds::all().has("keymiss") && Kinds::named(["keymiss"]).has("keymiss"));
        assert_eq!(missing_letters("Kgxn", ""), "Kgxn");
        assert_eq!(missing_letters("Kgxn", "AKE"), "n");
        assert_eq!(missing_letters("Kg$", "Kg"), "$");
        assert_eq!(missing_letters("Kx", "xK"), "");
    }

    #[test]
    fn events_are_known_by_their_names() {
        let both: Kinds = [Kind::Renamed, Kind::Evicted].into();
        assert_eq!(both.names(), ["evicted", "rename_from", "rename_to"]);
        assert_eq!(Kinds::named(["hset", "json.set"]).names(), ["hset", "json.set"]);
        assert!(Kinds::from(Kind::Updated).has("json.set") && !Kinds::from(Kind::Updated).has("del"));
        for (_, names) in EVENTS_BY_LETTER {
            assert!(names.iter().all(|name| Kind::ALL.contains(&Kind::of(name))));
        }
        assert_eq!(Kinds::named(["a b"]).invalid_name(), Some("a b"));
        assert_eq!(Kinds::all().invalid_name(), None);
    }
}
