//! Calls of scripts, functions and commands, with their keys and arguments.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::Encode;
use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure, IntoArg, Name, OwnedScript, Request, ServerError};

use crate::error::CallError;

/// Commands that change the state of the connection, which other callers share.
const CONNECTION_COMMANDS: [&str; 24] = [
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

/// Commands that block the connection, which other callers share.
const BLOCKING_COMMANDS: [&str; 11] = [
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

/// The expected commands, for error messages.
const EXPECTED_STATELESS: &str = "a command that does not change the shared connection";
const EXPECTED_NONBLOCKING: &str = "a command that does not block the shared connection";

/// A call of a script, a function or a command.
///
/// It is sent by [`Call::query`] and its variants, or as part of a [`Batch`](crate::Batch). It is
/// sent once, unless [`Call::idempotent`] or [`Call::reads`] allows sending it again after a lost
/// reply.
#[derive(Clone)]
#[must_use = "does nothing until it is queried, or a batch with it is sent"]
pub struct Call {
    target: Target,
    keys: Vec<Name>,
    /// The arguments. For a command, this includes the positions of its keys.
    args: Vec<Arg>,
    idempotent: bool,
    reads: bool,
    timeout: Option<Duration>,
    /// The first invalid part of the call, reported when it is sent.
    build_error: Option<CallError>,
}

#[derive(Clone)]
enum Target {
    Command { name: Cow<'static, str>, subcommand: Option<&'static str> },
    Script(OwnedScript),
    Function { name: String, library: Option<Bytes> },
}

#[derive(Clone)]
enum Arg {
    /// The position of the next key.
    Key,
    Bytes(Bytes),
}

impl Call {
    /// Returns a call of a command, such as `INCRBY`.
    ///
    /// Keys and arguments are sent in the order in which they are added:
    /// `Call::command("MSET").key("a").arg("1").key("b").arg("2")`.
    ///
    /// Commands that change the shared connection (`MULTI`, `SUBSCRIBE`, `SELECT`) or block it
    /// (`BLPOP`, `WAIT`, `XREAD` with `BLOCK`) are rejected when the call is sent.
    pub fn command(name: impl Into<String>) -> Self {
        Call::for_command(Cow::Owned(name.into()), None)
    }

    /// Returns a call of a command with a subcommand, such as `OBJECT` `ENCODING`.
    pub fn subcommand(name: &'static str, second: &'static str) -> Self {
        Call::for_command(name.into(), Some(second))
    }

    fn for_command(name: Cow<'static, str>, subcommand: Option<&'static str>) -> Self {
        let upper = name.to_ascii_uppercase();
        let rejected = |expected| rejected_command(&name, expected, upper.clone());
        let build_error = if CONNECTION_COMMANDS.contains(&&*upper) {
            Some(rejected(EXPECTED_STATELESS))
        } else if BLOCKING_COMMANDS.contains(&&*upper) {
            Some(rejected(EXPECTED_NONBLOCKING))
        } else if name.is_empty() || name.contains(|c: char| c.is_whitespace()) {
            Some(rejected("one word (Call::subcommand adds a second one)"))
        } else {
            None
        };
        Call { build_error, ..Call::new(Target::Command { name, subcommand }) }
    }

    pub(crate) fn script(script: &OwnedScript) -> Self {
        Call::new(Target::Script(script.clone()))
    }

    pub(crate) fn function(name: &str, library: Option<Bytes>) -> Self {
        Call::new(Target::Function { name: name.to_owned(), library })
    }

    fn new(target: Target) -> Self {
        Call {
            target,
            keys: Vec::new(),
            args: Vec::new(),
            idempotent: false,
            reads: false,
            timeout: None,
            build_error: None,
        }
    }

    /// Adds a key: a name, which is prefixed with the client's namespace.
    ///
    /// For a script or a function it is one of `KEYS`. For a command it is sent at the position
    /// where it is added.
    pub fn key(mut self, name: impl AsRef<str>) -> Self {
        match Name::of_key(name) {
            Ok(name) => {
                self.keys.push(name);
                if let Target::Command { .. } = self.target {
                    self.args.push(Arg::Key);
                }
            }
            Err(invalid) => self.build_error = self.build_error.or(Some(invalid.into())),
        }
        self
    }

    /// Adds several keys.
    pub fn keys<N: AsRef<str>>(self, names: impl IntoIterator<Item = N>) -> Self {
        names.into_iter().fold(self, Call::key)
    }

    /// Adds an argument, without encoding it.
    pub fn arg(mut self, arg: impl IntoArg) -> Self {
        self.args.push(Arg::Bytes(arg.into_arg()));
        self
    }

    /// Adds a whole number as an argument, in decimal text.
    pub fn int(self, n: i64) -> Self {
        self.arg(n.to_string())
    }

    /// Adds a value as an argument, encoded with this codec.
    pub fn value<T: ?Sized, C: Encode<T>>(mut self, codec: &C, value: &T) -> Self {
        match codec.encode(value) {
            Ok(bytes) => self.args.push(Arg::Bytes(bytes)),
            Err(source) => {
                let nth = 1 + self.args.iter().filter(|arg| matches!(arg, Arg::Bytes(_))).count();
                let (what, codec) = (self.label().to_owned(), codec.name());
                let error = CallError::Encode { what, nth, codec, source: Arc::new(source) };
                self.build_error = self.build_error.or(Some(error));
            }
        }
        self
    }

    /// Marks the call as idempotent: it is sent again after a lost reply.
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Marks the call as read-only. It may be sent again, and is sent to a replica if
    /// [`Config::read_mode`](redgrid_core::Config::read_mode) is set accordingly.
    ///
    /// The server refuses writes of a script or a function in such a call (EVALSHA_RO, Redis 7.0 or
    /// newer). On Redis 6.2 a replica refuses them, but a primary does not.
    #[doc(alias = "READ_ONLY")]
    pub fn reads(mut self) -> Self {
        self.reads = true;
        self
    }

    /// Sets how long the call is retried. The default is `response_timeout × (retries + 1)` of the
    /// settings.
    ///
    /// In any case, a single transmission waits up to `response_timeout` for its reply.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Returns the name of the script, the function or the command, for errors.
    pub(crate) fn label(&self) -> &str {
        match &self.target {
            Target::Command { name, .. } => name,
            Target::Script(script) => script.body().name(),
            Target::Function { name, .. } => name,
        }
    }

    /// Converts the error of this call.
    pub(crate) fn error(&self, source: ServerError) -> CallError {
        if self.reads { CallError::of_read(self.label(), source) } else { CallError::of(self.label(), source) }
    }

    pub(crate) fn is_read(&self) -> bool {
        self.reads
    }

    pub(crate) fn key_names(&self) -> &[Name] {
        &self.keys
    }

    /// Returns the size in bytes of the keys and arguments, and of the name or a script's text.
    pub(crate) fn size(&self) -> usize {
        let target = match &self.target {
            Target::Command { name, subcommand } => name.len() + subcommand.map_or(0, str::len),
            Target::Script(script) => script.body().text().len(),
            Target::Function { name, .. } => name.len(),
        };
        let keys = self.keys.iter().map(|key| key.as_str().len());
        target + keys.chain(self.args.iter().map(Arg::len)).sum::<usize>()
    }

    /// Returns the error of an invalid call: an invalid part, or a command whose arguments make it
    /// block or change the connection.
    fn invalid(&self) -> Option<CallError> {
        if let Some(error) = &self.build_error {
            return Some(error.clone());
        }
        let Target::Command { name, subcommand } = &self.target else { return None };
        let mut args = subcommand.iter().map(|arg| arg.as_bytes()).chain(self.args.iter().map(Arg::bytes));
        let is = |arg: &[u8], keyword: &str| arg.eq_ignore_ascii_case(keyword.as_bytes());
        let upper = name.to_ascii_uppercase();
        match &*upper {
            "SCRIPT" => {
                let debug = args.next().filter(|arg| is(arg, "DEBUG"));
                debug.map(|_| rejected_command(name, EXPECTED_STATELESS, upper))
            }
            "XREAD" | "XREADGROUP" => loop {
                let arg = args.next().filter(|arg| !is(arg, "STREAMS"))?;
                if is(arg, "BLOCK") {
                    return Some(rejected_command(name, EXPECTED_NONBLOCKING, format!("{upper} … BLOCK")));
                }
                // Skip the values of the option: two names for GROUP, a number for COUNT.
                let value_count = if is(arg, "GROUP") { 2 } else { usize::from(is(arg, "COUNT")) };
                for _ in 0..value_count {
                    args.next();
                }
            },
            _ => None,
        }
    }

    /// Returns the request, if the call is valid.
    pub(crate) fn request(&self, client: &Client) -> Result<Request, CallError> {
        let request = self.primary_request(client)?;
        Ok(if self.reads { request.reads() } else { request })
    }

    /// Returns the request for the primary, also for a read-only call.
    pub(crate) fn primary_request(&self, client: &Client) -> Result<Request, CallError> {
        if let Some(error) = self.invalid() {
            return Err(error);
        }
        let mut keys = keys_in_one_slot(client, self.label(), &self.keys)?.into_iter();
        let mut request = match &self.target {
            Target::Command { name, subcommand } => {
                let command = Request::command(name.clone().into_owned());
                subcommand.iter().fold(command, |command, subcommand| command.and_second(subcommand))
            }
            Target::Script(script) => script.with(keys.by_ref()),
            Target::Function { name, library } => Request::function(name.clone(), library.clone()).keys(keys.by_ref()),
        };
        // Whether only keys have been added so far.
        let mut is_leading = true;
        for arg in &self.args {
            is_leading &= matches!(arg, Arg::Key);
            request = match arg {
                Arg::Bytes(bytes) => request.arg(bytes.clone()),
                Arg::Key => match keys.next() {
                    Some(key) if is_leading => request.key(key),
                    Some(key) => request.key_arg(key),
                    None => request,
                },
            };
        }
        if self.reads {
            request = request.read_only();
        }
        Ok(if self.idempotent || self.reads { request.idempotent() } else { request })
    }

    /// Returns how long the call is retried.
    pub(crate) fn timeout_or_default(&self, client: &Client) -> Duration {
        self.timeout.unwrap_or(client.patience())
    }

    pub(crate) fn has_library(&self) -> bool {
        matches!(&self.target, Target::Function { library: Some(_), .. })
    }
}

impl Arg {
    /// Returns the argument; empty for the position of a key.
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

fn rejected_command(what: &str, expected: &'static str, got: String) -> CallError {
    Failure::invalid_argument(what, "command", expected, got).into()
}

/// Returns the keys of these names.
///
/// # Errors
///
/// [`CallError::OtherSlot`] if they do not share a slot.
pub(crate) fn keys_in_one_slot<'a>(
    client: &Client,
    what: &str,
    names: impl IntoIterator<Item = &'a Name>,
) -> Result<Vec<Bytes>, CallError> {
    let mut first: Option<(&Name, u16)> = None;
    let mut keys = Vec::new();
    for name in names {
        let key = client.key(name);
        let slot = client.slot(&key);
        let (first_name, expected) = *first.get_or_insert((name, slot));
        if slot != expected {
            return Err(CallError::OtherSlot { what: what.to_owned(), one: first_name.clone(), other: name.clone() });
        }
        keys.push(key);
    }
    Ok(keys)
}

redgrid_core::debug_fields!(Call, |it| what: it.label(), keys: it.keys);
