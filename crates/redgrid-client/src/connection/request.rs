//! One request to one server: its command, keys and arguments, and the properties that decide how
//! it may be sent.

pub(super) mod batch;
pub(super) mod primary;
pub(super) mod progress;
pub(super) mod reply;
pub(super) mod response;
pub(super) mod retry;
pub(super) mod route;
pub(super) mod send;
mod servers_own;
pub(super) mod slot;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::clock::Instant;
use crate::inline_bytes::decimal;
use crate::script::{BatchPhase, BatchScript, ScriptRef, ScriptText};

/// A command or a script call.
///
/// Two properties control its execution: whether it may be executed twice
/// ([`idempotent`](Request::idempotent)), and until when it may be executed
/// ([`not_after`](Request::not_after)).
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) what: What,
    /// The second word of a two-word command name; it is sent before the keys.
    pub(crate) subcommand: Option<&'static str>,
    pub(crate) keys: SmallVec<[Bytes; 1]>,
    /// Number of keys that are sent among the arguments. They are the last elements of `keys`.
    pub(crate) keys_behind: usize,
    /// The arguments. The inline capacity suffices for an acquire or a release, so these requests
    /// need no allocation.
    pub(crate) args: SmallVec<[Arg; 3]>,
    pub(crate) idempotent: bool,
    pub(crate) not_after: Option<Instant>,
    pub(crate) reads: bool,
    pub(crate) late_reply_has_time: bool,
    pub(crate) read_only: bool,
    pub(crate) in_order: bool,
    pub(crate) dedicated: bool,
    pub(crate) batch: Option<(&'static BatchScript, BatchPhase)>,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// The command's name; `keys` are sent before `args`.
    Command(Bytes),
    Script(ScriptRef),
    /// A function, and the code of its library if that is known.
    Function {
        name: Bytes,
        library: Option<Bytes>,
    },
    /// Requests that are executed together, all or none.
    Together(Vec<Request>),
}

/// One argument of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum Arg {
    /// Bytes, sent as they are.
    Bytes(Bytes),
    /// Placeholder for the request's [`not_after`](Request::not_after). It is filled in when the
    /// request is sent, in microseconds of the server's own clock.
    NotAfter,
    /// Placeholder for the command by which a script publishes on the channels of its keys:
    /// `PUBLISH`, or `SPUBLISH` if these channels are sharded.
    Publish,
    /// Placeholder for `SPUBLISH`. It is omitted if channels are not sharded. So it must be the
    /// last argument: the positions of all other arguments then stay the same.
    Sharded,
    /// A key that follows other arguments. The list of the request's keys contains it, too.
    Key(Bytes),
}

impl Arg {
    /// Returns whether the argument can differ between the requests of a batch. A placeholder has
    /// the same value for all of them.
    pub(crate) fn is_its_own(&self) -> bool {
        !matches!(self, Arg::NotAfter | Arg::Publish | Arg::Sharded)
    }
}

impl Request {
    /// Creates a command by its name, such as `GET` or `CLIENT`. It is not idempotent by default.
    pub fn command(name: impl Into<Bytes>) -> Self {
        Request::new(What::Command(name.into()))
    }

    /// Creates a command with a two-word name, such as `MEMORY` `USAGE`. Keys follow both words.
    pub fn subcommand(name: &'static str, subcommand: &'static str) -> Self {
        Request { subcommand: Some(subcommand), ..Request::command(name) }
    }

    /// Sets the second word of the command's name.
    pub fn and_second(self, subcommand: &'static str) -> Self {
        Request { subcommand: Some(subcommand), ..self }
    }

    pub(crate) fn script(body: &'static ScriptText) -> Self {
        Request::for_script(ScriptRef::Static(body))
    }

    pub(crate) fn for_script(script: ScriptRef) -> Self {
        Request::new(What::Script(script))
    }

    /// Creates a call of a function that is stored on the servers (Redis 7.0 or newer, Valkey).
    ///
    /// If the server does not have the function, the client loads the code of `library`, if given,
    /// and repeats the call. An error that the function itself returns is final. This also holds
    /// for errors whose code would cause a retry of another request.
    pub fn function(name: impl Into<Bytes>, library: Option<Bytes>) -> Self {
        Request::new(What::Function { name: name.into(), library })
    }

    /// Creates a transaction: the requests are executed between MULTI and EXEC. All their keys must
    /// share a slot.
    ///
    /// No other request is executed between these requests. If one of them cannot be queued, none
    /// is executed. The reply is a list of their replies in order. A request that fails during
    /// execution leaves an error at its position, and the other requests are still executed.
    ///
    /// The transaction may be sent again after a lost reply if each of its requests is idempotent.
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
            reads: false,
            late_reply_has_time: false,
            read_only: false,
            in_order: false,
            dedicated: false,
            batch: None,
        }
    }

    /// Adds a key. Keys are sent before the arguments.
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

    /// Adds a key that is sent after the arguments added so far, for commands with keys among their
    /// arguments.
    pub fn key_arg(mut self, key: impl Into<Bytes>) -> Self {
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

    /// Adds a placeholder for the time limit of the request. It is filled in when the request is
    /// sent.
    #[inline]
    pub fn deadline_arg(mut self) -> Self {
        self.args.push(Arg::NotAfter);
        self
    }

    /// Adds a placeholder for the command by which a script publishes.
    #[inline]
    pub fn publish_arg(mut self) -> Self {
        self.args.push(Arg::Publish);
        self
    }

    /// Adds a placeholder for `SPUBLISH`. It is omitted if channels are not sharded, so it must be
    /// the last argument.
    #[inline]
    pub fn spublish_arg(mut self) -> Self {
        self.args.push(Arg::Sharded);
        self
    }

    /// Marks the request as idempotent: it may be sent again after a lost reply.
    #[inline]
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Sets the time, by the local clock, until which the server may execute the request.
    ///
    /// The limit has an effect only if the request has a [`Request::deadline_arg`].
    pub fn not_after(mut self, at: Instant) -> Self {
        self.not_after = Some(at);
        self
    }

    /// Declares that the reply to a transmission that arrives too late contains the server's time.
    ///
    /// If a transmission arrives too late, the server executes nothing, and returns a list of two
    /// numbers: -1, and the server's time in microseconds since 1970. The client then corrects its
    /// estimate of the server's clock, and retries while the caller waits.
    pub fn late_reply_has_time(mut self) -> Self {
        self.late_reply_has_time = true;
        self
    }

    /// Marks the request as a read, which also makes it idempotent. A replica may answer it if the
    /// read mode allows that.
    ///
    /// The value that a replica returns may be older than the primary's.
    pub fn reads(mut self) -> Self {
        self.reads = true;
        self.idempotent()
    }

    /// Sends a script or function by EVALSHA_RO or FCALL_RO, so that the server rejects its writes.
    /// Servers before Redis 7.0 execute scripts without this check.
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Keeps the request in order relative to other requests with this mark.
    ///
    /// If all requests of one `Server::call` have this mark, they share one connection, even if the
    /// node has several. Their scripts are sent as text instead of by their hash. If the server did
    /// not have a script, it would have to be sent again, and later requests would overtake it.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Sends the request on a dedicated connection, so that it does not queue behind other
    /// requests. SCRIPT KILL, for example, must not wait for the script that it ends.
    pub fn dedicated(mut self) -> Self {
        self.dedicated = true;
        self
    }

    /// Allows the request to be batched with other requests, in a script that executes each of
    /// them.
    ///
    /// The request is batched only if it has exactly one key and the number of arguments that was
    /// passed to [`BatchScript::new`]. Placeholders are not included in this number.
    #[inline]
    pub fn batchable(mut self, script: &'static BatchScript, phase: BatchPhase) -> Self {
        let own_args = self.args.iter().filter(|arg| arg.is_its_own()).count();
        self.batch = Some((script, phase)).filter(|_| self.keys.len() == 1 && own_args == script.arg_count);
        self
    }

    /// Returns whether the request may be sent again after a lost reply.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Returns the time, by the local clock, until which the request may be executed.
    pub fn limit(&self) -> Option<Instant> {
        self.not_after
    }

    /// Returns whether the request has a placeholder for its time limit.
    pub fn is_limited(&self) -> bool {
        self.args.contains(&Arg::NotAfter)
    }

    pub(crate) fn keys_in_front(&self) -> &[Bytes] {
        &self.keys[..self.keys.len() - self.keys_behind]
    }

    /// Returns the key that decides the target node; an empty key if the request has no key.
    pub(crate) fn first_key(&self) -> &[u8] {
        self.keys.first().map_or(&[], |key| key)
    }

    /// Returns all keys of the request.
    pub fn all_keys(&self) -> &[Bytes] {
        &self.keys
    }

    /// Returns the arguments in order, for tests with their own implementation of a server.
    #[cfg(feature = "testing")]
    pub fn arguments(&self) -> &[Arg] {
        &self.args
    }

    /// Returns the name of the command or script, for errors and tests.
    pub fn label(&self) -> &str {
        match &self.what {
            What::Command(name) => std::str::from_utf8(name).unwrap_or("command"),
            What::Script(body) => body.name(),
            What::Function { name, .. } => std::str::from_utf8(name).unwrap_or("function"),
            What::Together(_) => "MULTI",
        }
    }
}

/// Adds the keys and arguments of `tail` to `head`. Both are script calls.
pub fn append(head: Request, tail: Request) -> Request {
    let mut whole = head.keys(tail.keys);
    whole.args.extend(tail.args);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_front_or_where_they_were_added() {
        let request = Request::command("MSET").key("a").arg("1").key_arg("b").arg("2").key("c");
        assert_eq!(request.keys_in_front(), ["a", "c"]);
        assert_eq!(request.all_keys(), ["a", "c", "b"]);
        assert_eq!(request.args[..], [Arg::Bytes("1".into()), Arg::Key("b".into()), Arg::Bytes("2".into())]);
    }
}
