//! Lua scripts as statics: the number of keys is part of the type, the hash is computed once. Scripts that are made while a program
//! runs are [`OwnedScript`]s.
//!
//! A script is sent by its hash. Where the server does not know it (a restart, `SCRIPT FLUSH`, a new node), the same
//! call goes out once more with the text, to that node only; the server then remembers it.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::connection::Request;

/// The text of a script and its hash.
pub struct ScriptText {
    name: Cow<'static, str>,
    /// What several scripts have in common, and its own part, of which the whole is made when it is first needed.
    prelude: &'static str,
    text: Cow<'static, str>,
    full_text: OnceLock<String>,
    bytes: OnceLock<Bytes>,
    sha: OnceLock<Bytes>,
}

impl ScriptText {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        ScriptText::with_prelude("", name, text)
    }

    /// A script that begins with `prelude`.
    pub(crate) const fn with_prelude(prelude: &'static str, name: &'static str, text: &'static str) -> Self {
        ScriptText::from_parts(Cow::Borrowed(name), prelude, Cow::Borrowed(text))
    }

    const fn from_parts(name: Cow<'static, str>, prelude: &'static str, text: Cow<'static, str>) -> Self {
        ScriptText { name, prelude, text, full_text: OnceLock::new(), bytes: OnceLock::new(), sha: OnceLock::new() }
    }

    /// What it is called in errors and traces, as `lock/acquire`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its Lua source.
    pub fn text(&self) -> &str {
        match self.prelude {
            "" => &self.text,
            prelude => self.full_text.get_or_init(|| format!("{prelude}{}", self.text)),
        }
    }

    /// The same as it is sent.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.get_or_init(|| Bytes::copy_from_slice(self.text().as_bytes())).clone()
    }

    /// The SHA-1 of the text in lower-case hex, by which servers know it.
    pub fn sha(&self) -> &Bytes {
        self.sha.get_or_init(|| sha1_smol::Sha1::from(self.text()).digest().to_string().into())
    }
}

impl std::fmt::Debug for ScriptText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The script that a request calls.
#[derive(Debug, Clone)]
pub(crate) enum ScriptRef {
    Static(&'static ScriptText),
    /// One of a user: what it answers is not taken for the server's own words.
    Owned(Arc<ScriptText>),
}

impl Deref for ScriptRef {
    type Target = ScriptText;

    fn deref(&self) -> &ScriptText {
        match self {
            ScriptRef::Static(body) => body,
            ScriptRef::Owned(body) => body,
        }
    }
}

/// A script whose text is made while the program runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OwnedScript(Arc<ScriptText>);

impl OwnedScript {
    /// A script by its name (for errors) and text.
    pub fn new(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        OwnedScript(Arc::new(ScriptText::from_parts(name.into(), "", text.into())))
    }

    /// A call of the script with these keys, all of one slot; arguments are added to the result. An error that it returns is final,
    /// whatever its words: only the server's own refusals have it sent again.
    pub fn with(&self, keys: impl IntoIterator<Item = Bytes>) -> Request {
        Request::for_script(ScriptRef::Owned(Arc::clone(&self.0))).keys(keys)
    }

    /// The text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0
    }
}

/// A script that takes exactly `KEYS` keys, all of one slot.
///
/// ```
/// use redgrid_core::{Client, Script, ServerError};
///
/// // Deletes a key if it holds what is expected. Sent twice, it answers 0 the second time.
/// static DELETE_IF: Script<1> = Script::new(
///     "delete-if",
///     "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
/// );
///
/// # async fn demo(client: &Client) -> Result<(), ServerError> {
/// let key = client.key(&"greeting".try_into().expect("a valid name"));
/// let deleted: bool = client.run(DELETE_IF.with([key]).arg("hello")).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Script<const KEYS: usize>(ScriptText);

impl<const KEYS: usize> Script<KEYS> {
    /// A script by its name (for errors) and text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Script(ScriptText::new(name, text))
    }

    /// A call of the script with these keys; arguments are added to the result.
    pub fn with(&'static self, keys: [Bytes; KEYS]) -> Request {
        Request::script(&self.0).keys(keys)
    }

    /// The text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0
    }
}

/// A script that takes any number of keys of one slot and answers for each.
#[derive(Debug)]
pub struct BulkScript(ScriptText);

impl BulkScript {
    /// A script by its name (for errors) and text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        BulkScript(ScriptText::new(name, text))
    }

    /// A call of the script with these keys; arguments are added to the result.
    pub fn with(&'static self, keys: impl IntoIterator<Item = Bytes>) -> Request {
        Request::script(&self.0).keys(keys)
    }

    /// The text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0
    }
}

/// A script that does the work of many calls of others, of one key each: what leaves while others are under way goes together.
///
/// Its keys are those of the calls, first those that come [`First`](BatchPhase::Release). Its arguments are the number of these, until when it may be
/// carried out (the earliest time of all, as microseconds of the server's clock; 0 where none has one), the command by which
/// it publishes, and then the other arguments of each call, in the order of the keys. It answers by a list: the server's time, as each script of its own would tell it,
/// and then what each would have been answered. An error in its place says that this one did nothing; a number `n` in the place of one that
/// comes [`Second`](BatchPhase::Acquire) is short for the list of `n`, the time, and 0.
#[derive(Debug)]
pub struct BatchScript {
    body: ScriptText,
    pub(crate) arg_count: usize,
}

/// Where a call stands among those that it goes together with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchPhase {
    /// What gives something back.
    Release,
    /// What takes something.
    Acquire,
}

impl BatchScript {
    /// A script by its name (for errors) and text, for calls with so many arguments of their own.
    pub const fn new(name: &'static str, text: &'static str, arg_count: usize) -> Self {
        BatchScript { body: ScriptText::new(name, text), arg_count }
    }

    /// The text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.body
    }
}
