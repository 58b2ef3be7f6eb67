//! One request to one server, as bytes, with the facts that decide how it may be treated.

use bytes::Bytes;
use smallvec::SmallVec;

use super::slot::slot;
use crate::clock::Instant;
use crate::script::{Body, Called, Joint, Turn};
use crate::short::decimal;

/// A command or a script call.
///
/// Three facts go with it: whether it may be carried out twice ([`idempotent`](Request::idempotent)), until when it may
/// be carried out at all ([`not_after`](Request::not_after)), and whether it must follow the request before it on the
/// same connection ([`adjacent`](Request::adjacent)).
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) what: What,
    /// The second word of a command whose name is two: it comes before the keys.
    pub(crate) subcommand: Option<&'static str>,
    pub(crate) keys: SmallVec<[Bytes; 1]>,
    /// How many of its keys, the last ones, stand among the arguments.
    pub(crate) keys_behind: usize,
    /// Room for those of an acquire and a release: neither allocates.
    pub(crate) args: SmallVec<[Arg; 3]>,
    pub(crate) idempotent: bool,
    pub(crate) not_after: Option<Instant>,
    pub(crate) adjacent: bool,
    pub(crate) reads: bool,
    pub(crate) tells_time: bool,
    pub(crate) writes_nothing: bool,
    pub(crate) in_order: bool,
    pub(crate) aside: bool,
    pub(crate) joint: Option<(&'static Joint, Turn)>,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// The command's name; `keys` come before `args`.
    Command(Bytes),
    Script(Called),
    /// A function, and the code of its library where that is known.
    Function {
        name: Bytes,
        library: Option<Bytes>,
    },
    /// Requests that are carried out together, and all or none.
    Together(Vec<Request>),
}

/// How servers begin the refusals that pass, before a script has begun. How they send elsewhere is read as a whole.
const OWN_WORDS: [&str; 11] = [
    "NOSCRIPT No matching script",
    "READONLY You can't write against a read only",
    "LOADING Redis is loading",
    "LOADING Valkey is loading",
    "BUSY Redis is busy",
    "BUSY Valkey is busy",
    "TRYAGAIN Multiple keys request during rehashing",
    "CLUSTERDOWN Hash slot not served",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down",
    "NOREPLICAS Not enough good replicas",
];

/// One argument of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arg {
    /// Bytes, sent as they are.
    Bytes(Bytes),
    /// Where the request's [`not_after`](Request::not_after) goes: written when the request is sent, in microseconds of
    /// the server's own clock.
    NotAfter,
    /// Where the command goes by which a script publishes on the channels of its keys: `PUBLISH`, or `SPUBLISH` where they are
    /// sharded.
    Publish,
    /// Where `SPUBLISH` goes, and nothing where channels are not sharded: behind all other arguments.
    Sharded,
    /// A key that stands behind arguments; it is among the request's keys, too.
    Key(Bytes),
}

impl Arg {
    /// Whether it is not one of those that are the same for all who leave at the same time.
    pub(crate) fn is_its_own(&self) -> bool {
        !matches!(self, Arg::NotAfter | Arg::Publish | Arg::Sharded)
    }
}

impl Request {
    /// A command by its name, as `GET` or `CLIENT`. It may not be carried out twice unless said so.
    pub fn command(name: impl Into<Bytes>) -> Self {
        Request::new(What::Command(name.into()))
    }

    /// A command whose name is two words, as `MEMORY` `USAGE`: the keys come behind both.
    pub fn subcommand(name: &'static str, subcommand: &'static str) -> Self {
        Request { subcommand: Some(subcommand), ..Request::command(name) }
    }

    /// Adds the second word of the name of a command.
    pub fn and_second(self, subcommand: &'static str) -> Self {
        Request { subcommand: Some(subcommand), ..self }
    }

    pub(crate) fn script(body: &'static Body) -> Self {
        Request::called(Called::Static(body))
    }

    pub(crate) fn called(script: Called) -> Self {
        Request::new(What::Script(script))
    }

    /// A call of a function that servers keep (Redis 7.0 or newer, Valkey). Where one does not know it and the code of its `library` is
    /// given, that is loaded there, and the function is called once more. An error that it returns is final, whatever its words.
    pub fn function(name: impl Into<Bytes>, library: Option<Bytes>) -> Self {
        Request::new(What::Function { name: name.into(), library })
    }

    /// Requests whose keys share a slot, carried out between MULTI and EXEC: nobody else is served between them, and where one can
    /// not even be queued none is carried out. It is answered by a list of their answers in their order, and what fails when it is carried out
    /// is an error at its place there: the others are carried out all the same.
    ///
    /// It may be sent again if each of them may.
    pub fn together(requests: impl IntoIterator<Item = Request>) -> Self {
        let requests: Vec<_> = requests.into_iter().collect();
        let idempotent = requests.iter().all(Request::is_idempotent);
        let keys = requests.iter().flat_map(|request| request.keys.iter().cloned()).collect();
        Request { keys, idempotent, ..Request::new(What::Together(requests)) }
    }

    fn new(what: What) -> Self {
        Request {
            what,
            subcommand: None,
            keys: SmallVec::new(),
            keys_behind: 0,
            args: SmallVec::new(),
            idempotent: false,
            not_after: None,
            adjacent: false,
            reads: false,
            tells_time: false,
            writes_nothing: false,
            in_order: false,
            aside: false,
            joint: None,
        }
    }

    /// Adds a key. Keys come before arguments.
    pub fn key(self, key: impl Into<Bytes>) -> Self {
        self.keys([key.into()])
    }

    /// Adds several keys.
    #[inline]
    pub fn keys(mut self, keys: impl IntoIterator<Item = Bytes>) -> Self {
        for key in keys {
            self.keys.insert(self.keys.len() - self.keys_behind, key);
        }
        self
    }

    /// Adds a key of a command behind what was added before: for commands that have keys among their arguments.
    pub fn key_here(mut self, key: impl Into<Bytes>) -> Self {
        let key = key.into();
        self.args.push(Arg::Key(key.clone()));
        self.keys.push(key);
        self.keys_behind += 1;
        self
    }

    /// Adds an argument.
    #[inline]
    pub fn arg(mut self, arg: impl Into<Bytes>) -> Self {
        self.args.push(Arg::Bytes(arg.into()));
        self
    }

    /// Adds a whole number as an argument, in decimal text.
    #[inline(always)]
    pub fn int(self, n: i64) -> Self {
        self.arg(decimal(n))
    }

    /// Adds the place where the time limit of the request is written when it is sent.
    #[inline]
    pub fn not_after_here(mut self) -> Self {
        self.args.push(Arg::NotAfter);
        self
    }

    /// Adds the place where the command is written by which a script publishes.
    #[inline]
    pub fn publish_here(mut self) -> Self {
        self.args.push(Arg::Publish);
        self
    }

    /// Adds the place where that command is written only if it is not `PUBLISH`: behind all other arguments.
    #[inline]
    pub fn sharded_here(mut self) -> Self {
        self.args.push(Arg::Sharded);
        self
    }

    /// Says that carrying it out twice is the same as once, so that it may be sent again after a lost reply.
    #[inline]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Says until when, by our clock, it may be carried out. Only requests with [`Request::not_after_here`] obey.
    pub fn not_after(mut self, at: Instant) -> Self {
        self.not_after = Some(at);
        self
    }

    /// Says that it is answered by a list of -1 and the server's time, in microseconds since 1970, where it came too late and did
    /// nothing: the time is learned, and it is asked again, for as long as its caller waits.
    pub fn tells_time(mut self) -> Self {
        self.tells_time = true;
        self
    }

    /// Says that it must follow the request before it in the same call, on the same connection.
    pub fn adjacent(mut self) -> Self {
        self.adjacent = true;
        self
    }

    /// Says that it only reads, and may be answered by a replica where the read mode says so: what it reads may be older
    /// than what the primary has.
    pub fn reads(mut self) -> Self {
        self.reads = true;
        self.idempotent()
    }

    /// Has the server refuse what a script or a function writes, where it can: EVALSHA_RO from Redis 7.0 on, FCALL_RO.
    pub fn writes_nothing(mut self) -> Self {
        self.writes_nothing = true;
        self
    }

    /// Keeps it in its order among others that say so: they go by one connection, where a node has several, and a script goes with its text. Sent
    /// by its hash, it would come behind what was sent after it where the server does not know it.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Has it sent on a connection of its own, for what must not queue behind others: SCRIPT KILL, behind the script.
    pub fn aside(mut self) -> Self {
        self.aside = true;
        self
    }

    /// Says that it may go to its server together with others, by a script that does what each of them asks. Of several keys or other
    /// than [`Joint::new`]'s number of arguments of its own it goes alone.
    #[inline]
    pub fn joins(mut self, joint: &'static Joint, turn: Turn) -> Self {
        let words = self.args.iter().filter(|arg| arg.is_its_own()).count();
        self.joint = Some((joint, turn)).filter(|_| self.keys.len() == 1 && words == joint.words);
        self
    }

    /// Whether `message` is the server's own, and not of a script that may have done something before it answered so.
    pub(crate) fn is_servers_own(&self, message: &str) -> bool {
        match &self.what {
            // UNKILLABLE says that the script goes on.
            _ if self.aside => false,
            What::Script(Called::Owned(_)) | What::Function { .. } => {
                OWN_WORDS.iter().any(|words| message.starts_with(words)) || self.is_sent_elsewhere(message)
            }
            What::Command(_) | What::Script(Called::Static(_)) | What::Together(_) => true,
        }
    }

    /// Whether `message` is, to its end, how a server sends elsewhere what has these keys: `MOVED 3999 127.0.0.1:6381`.
    fn is_sent_elsewhere(&self, message: &str) -> bool {
        let words: Vec<_> = message.split(' ').collect();
        let ["MOVED" | "ASK", number, address] = words[..] else { return false };
        let is_port = |(_, port): (&str, &str)| port.parse::<u16>().is_ok();
        let is_its_slot = |number: u16| self.keys.first().is_some_and(|key| slot(key) == number);
        number.parse().is_ok_and(is_its_slot) && address.rsplit_once(':').is_some_and(is_port)
    }

    /// Whether it may be sent again after a lost reply.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Until when, by our clock, it may be carried out.
    pub fn limit(&self) -> Option<Instant> {
        self.not_after
    }

    /// Whether it has a place for its time limit.
    pub fn is_limited(&self) -> bool {
        self.args.contains(&Arg::NotAfter)
    }

    /// Its keys that come before its arguments.
    pub(crate) fn keys_in_front(&self) -> &[Bytes] {
        &self.keys[..self.keys.len() - self.keys_behind]
    }

    /// The key that decides which node it goes to; empty where it has none.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.keys.first().map_or(&[], |key| key)
    }

    /// The keys it touches, all of them.
    pub fn touched(&self) -> &[Bytes] {
        &self.keys
    }

    /// Its arguments in their order, for servers of a test's own making.
    #[cfg(feature = "testing")]
    pub fn arguments(&self) -> &[Arg] {
        &self.args
    }

    /// The name of the command or script, for errors and tests.
    pub fn label(&self) -> &str {
        match &self.what {
            What::Command(name) => std::str::from_utf8(name).unwrap_or("command"),
            What::Script(body) => body.name(),
            What::Function { name, .. } => std::str::from_utf8(name).unwrap_or("function"),
            What::Together(_) => "MULTI",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::OwnedScript;

    #[test]
    fn of_a_script_only_the_whole_words_of_a_server_are_not_its_own() {
        let number = slot(b"a");
        let script = || OwnedScript::new("s", "return 1").with([Bytes::from_static(b"a")]);
        for words in [
            format!("MOVED {number} 127.0.0.1:6381"),
            format!("ASK {number} :6381"),
            format!("MOVED {number} ?:6381"),
            "CLUSTERDOWN Hash slot not served".into(),
            "CLUSTERDOWN The cluster is down and only accepts read commands".into(),
            "NOREPLICAS Not enough good replicas to write.".into(),
        ] {
            assert!(script().is_servers_own(&words), "{words}");
        }
        for words in [
            format!("MOVED {} 127.0.0.1:6381", number + 1),
            format!("MOVED {number} 127.0.0.1:6381 "),
            format!("MOVED {number} 127.0.0.1"),
            format!("ASK {number} a:b"),
            "MOVED house".into(),
            "ASK me".into(),
            "CLUSTERDOWN come later".into(),
        ] {
            assert!(!script().is_servers_own(&words), "{words}");
            assert!(Request::command("GET").key("a").is_servers_own(&words), "{words}");
        }
        let keyless = OwnedScript::new("s", "return 1").with([]);
        assert!(!keyless.is_servers_own(&format!("MOVED {number} 127.0.0.1:6381")));
    }

    #[test]
    fn keys_stand_in_front_or_where_they_were_added() {
        let request = Request::command("MSET").key("a").arg("1").key_here("b").arg("2").key("c");
        assert_eq!(request.keys_in_front(), ["a", "c"]);
        assert_eq!(request.touched(), ["a", "c", "b"]);
        assert_eq!(request.args[..], [Arg::Bytes("1".into()), Arg::Key("b".into()), Arg::Bytes("2".into())]);
    }
}
