//! A call: of a script, a function or a command, put together key by key and argument by argument.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::Encode;
use redgrid_core::{Client, Name, OwnedScript, Request, ServerError};

use crate::error::CallError;

/// Commands that would leave the connection another one for all who share it.
const OF_THE_CONNECTION: [&str; 24] = [
    "ASKING",
    "AUTH",
    "CLIENT",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WATCH",
];

/// Commands that would have all wait who share the connection.
const BLOCKING: [&str; 11] = [
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "SHUTDOWN",
    "WAIT",
    "WAITAOF",
];

/// What is expected of a command, in errors.
const UNCHANGED: &str = "one that leaves the shared connection as it is";
const WAITLESS: &str = "one that does not have others wait on the shared connection";

/// A call of a script, a function or a command. Nothing is sent before it is asked for its answer by [`Call::query`] and what is beside it,
/// or goes with a [`Batch`](crate::Batch).
///
/// It is sent once, unless [`Call::idempotent`] or [`Call::reads`] say that it may be sent again after a lost answer.
#[derive(Clone)]
#[must_use = "nothing is asked of the server until its answer is"]
pub struct Call {
    what: What,
    keys: Vec<Name>,
    /// Of a command its keys, too, in their places.
    args: Vec<Arg>,
    idempotent: bool,
    reads: bool,
    within: Option<Duration>,
    /// The first thing that is wrong with it: it is told when the call is made.
    fault: Option<CallError>,
}

#[derive(Clone)]
enum What {
    Command { name: Cow<'static, str>, second: Option<&'static str> },
    Script(OwnedScript),
    Function { name: String, library: Option<Bytes> },
}

#[derive(Clone)]
enum Arg {
    /// The next of the keys.
    Key,
    Bytes(Bytes),
}

impl Call {
    /// A command by its name, as `INCRBY`. Its keys and arguments are sent in the order in which they are added:
    /// `Call::command("MSET").key("a").arg("1").key("b").arg("2")`.
    ///
    /// What would change the connection that is shared with others (`MULTI`, `SUBSCRIBE`, `SELECT`), or would have them wait (`BLPOP`, `WAIT`,
    /// `XREAD` with `BLOCK`), is refused when it is called.
    pub fn command(name: impl Into<Cow<'static, str>>) -> Self {
        Call::of_command(name.into(), None)
    }

    /// A command whose name is two words, as `OBJECT` `ENCODING`.
    pub fn subcommand(name: &'static str, second: &'static str) -> Self {
        Call::of_command(name.into(), Some(second))
    }

    fn of_command(name: Cow<'static, str>, second: Option<&'static str>) -> Self {
        let upper = name.to_ascii_uppercase();
        let refused = |expected| refused(&name, expected, upper.clone());
        let fault = if OF_THE_CONNECTION.contains(&&*upper) {
            Some(refused(UNCHANGED))
        } else if BLOCKING.contains(&&*upper) {
            Some(refused(WAITLESS))
        } else if name.is_empty() || name.contains(|c: char| c.is_whitespace()) {
            Some(refused("one word; of two, Call::subcommand has the second"))
        } else {
            None
        };
        Call { fault, ..Call::new(What::Command { name, second }) }
    }

    pub(crate) fn script(script: &OwnedScript) -> Self {
        Call::new(What::Script(script.clone()))
    }

    pub(crate) fn function(name: &str, library: Option<Bytes>) -> Self {
        Call::new(What::Function { name: name.to_owned(), library })
    }

    fn new(what: What) -> Self {
        Call { what, keys: Vec::new(), args: Vec::new(), idempotent: false, reads: false, within: None, fault: None }
    }

    /// Adds a key: a name, which goes behind the client's namespace. Of a script or a function it is one of `KEYS`, of a command it stands where
    /// it is added.
    pub fn key(mut self, name: impl AsRef<str>) -> Self {
        match Name::of_key(name) {
            Ok(name) => {
                self.keys.push(name);
                if let What::Command { .. } = self.what {
                    self.args.push(Arg::Key);
                }
            }
            Err(invalid) => self.fault = self.fault.or(Some(invalid.into())),
        }
        self
    }

    /// Adds several keys.
    pub fn keys<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Self {
        names.into_iter().fold(self, Call::key)
    }

    /// Adds an argument, as it is.
    pub fn arg(mut self, arg: impl Into<Bytes>) -> Self {
        self.args.push(Arg::Bytes(arg.into()));
        self
    }

    /// Adds a whole number as an argument, in decimal text.
    pub fn int(self, n: i64) -> Self {
        self.arg(n.to_string())
    }

    /// Adds a value as an argument, as this codec writes it.
    pub fn value<T: ?Sized, C: Encode<T>>(mut self, codec: &C, value: &T) -> Self {
        match codec.encode(value) {
            Ok(bytes) => self.args.push(Arg::Bytes(bytes)),
            Err(source) => {
                let nth = 1 + self.args.iter().filter(|arg| matches!(arg, Arg::Bytes(_))).count();
                let (what, codec) = (self.label().to_owned(), codec.name());
                let fault = CallError::Encode { what, nth, codec, source: Arc::new(source) };
                self.fault = self.fault.or(Some(fault));
            }
        }
        self
    }

    /// Says that carrying it out twice is the same as once: after a lost answer it is sent again.
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Says that it only reads: it may be sent again, and goes to a replica where [`Config::read_mode`](redgrid_core::Config::read_mode) says
    /// so. The server refuses what a script or a function writes then (EVALSHA_RO from Redis 7.0 on; on Redis 6.2 a replica refuses it,
    /// and a primary does not).
    #[doc(alias = "READ_ONLY")]
    pub fn reads(mut self) -> Self {
        self.reads = true;
        self
    }

    /// For how long it is tried; `response_timeout × (retries + 1)` of the settings unless set. One copy waits for its answer for `response_timeout` in any case.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// The script, the function or the command, for errors.
    pub(crate) fn label(&self) -> &str {
        match &self.what {
            What::Command { name, .. } => name,
            What::Script(script) => script.body().name(),
            What::Function { name, .. } => name,
        }
    }

    /// What became of it, as an error of ours.
    pub(crate) fn error(&self, source: ServerError) -> CallError {
        match self.reads {
            true => CallError::of_read(self.label(), source),
            false => CallError::of(self.label(), source),
        }
    }

    pub(crate) fn is_read(&self) -> bool {
        self.reads
    }

    /// Its keys.
    pub(crate) fn names(&self) -> &[Name] {
        &self.keys
    }

    /// How many bytes its keys and arguments have, and its name or, of a script, its text.
    pub(crate) fn size(&self) -> usize {
        let what = match &self.what {
            What::Command { name, second } => name.len() + second.map_or(0, str::len),
            What::Script(script) => script.body().text().len(),
            What::Function { name, .. } => name.len(),
        };
        let keys = self.keys.iter().map(|key| key.as_str().len());
        what + keys.chain(self.args.iter().map(Arg::len)).sum::<usize>()
    }

    /// What is wrong with it as a whole: a command that waits, or changes the connection, by what stands among its arguments.
    fn fault(&self) -> Option<CallError> {
        if let Some(fault) = &self.fault {
            return Some(fault.clone());
        }
        let What::Command { name, second } = &self.what else { return None };
        let mut words = second.iter().map(|word| word.as_bytes()).chain(self.args.iter().map(Arg::bytes));
        let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        let upper = name.to_ascii_uppercase();
        match &*upper {
            "SCRIPT" => words.next().filter(|word| is(word, "DEBUG")).map(|_| refused(name, UNCHANGED, upper)),
            "XREAD" | "XREADGROUP" => loop {
                let word = words.next().filter(|word| !is(word, "STREAMS"))?;
                if is(word, "BLOCK") {
                    return Some(refused(name, WAITLESS, format!("{upper} … BLOCK")));
                }
                // What follows is a name, or a number.
                let named = if is(word, "GROUP") { 2 } else { usize::from(is(word, "COUNT")) };
                for _ in 0..named {
                    words.next();
                }
            },
            _ => None,
        }
    }

    /// As it is sent, if it can be.
    pub(crate) fn request(&self, client: &Client) -> Result<Request, CallError> {
        let request = self.for_primary(client)?;
        Ok(if self.reads { request.reads() } else { request })
    }

    /// The same for the primary, whatever it does.
    pub(crate) fn for_primary(&self, client: &Client) -> Result<Request, CallError> {
        if let Some(fault) = self.fault() {
            return Err(fault);
        }
        let mut keys = one_slot(client, self.label(), &self.keys)?.into_iter();
        let mut request = match &self.what {
            What::Command { name, second } => {
                let command = Request::command(name.clone().into_owned());
                second.iter().fold(command, |command, second| command.and_second(second))
            }
            What::Script(script) => script.with(keys.by_ref()),
            What::Function { name, library } => Request::function(name.clone(), library.clone()).keys(keys.by_ref()),
        };
        let mut in_front = true;
        for arg in &self.args {
            in_front &= matches!(arg, Arg::Key);
            request = match arg {
                Arg::Bytes(bytes) => request.arg(bytes.clone()),
                Arg::Key => match keys.next() {
                    Some(key) if in_front => request.key(key),
                    Some(key) => request.key_here(key),
                    None => request,
                },
            };
        }
        if self.reads {
            request = request.writes_nothing();
        }
        Ok(if self.idempotent || self.reads { request.idempotent() } else { request })
    }

    /// How long it is tried.
    pub(crate) fn time(&self, client: &Client) -> Duration {
        self.within.unwrap_or(client.patience())
    }

    pub(crate) fn names_a_library(&self) -> bool {
        matches!(&self.what, What::Function { library: Some(_), .. })
    }
}

impl Arg {
    /// Where it is no key.
    fn bytes(&self) -> &[u8] {
        match self {
            Arg::Key => &[],
            Arg::Bytes(bytes) => bytes,
        }
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }
}

fn refused(what: &str, expected: &'static str, got: String) -> CallError {
    CallError::InvalidArgument { what: what.to_owned(), option: "command", expected: expected.into(), got }
}

/// The keys of what is one step, which share a slot.
pub(crate) fn one_slot<'a>(
    client: &Client,
    what: &str,
    names: impl IntoIterator<Item = &'a Name>,
) -> Result<Vec<Bytes>, CallError> {
    let mut first: Option<(&Name, u16)> = None;
    let mut keys = Vec::new();
    for name in names {
        let key = client.key(name);
        let slot = client.slot(&key);
        let (one, expected) = *first.get_or_insert((name, slot));
        if slot != expected {
            return Err(CallError::OtherSlot { what: what.to_owned(), one: one.clone(), other: name.clone() });
        }
        keys.push(key);
    }
    Ok(keys)
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("what", &self.label()).field("keys", &self.keys).finish_non_exhaustive()
    }
}
