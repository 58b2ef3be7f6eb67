//! Lua scripts as statics. The number of keys is part of a script's type, and a script's hash is
//! computed once.
//!
//! A script that is created at run time is an [`OwnedScript`].
//!
//! A call is sent with the hash of its script, not with the text. A server has no script with that
//! hash if it is new, was restarted, or has executed `SCRIPT FLUSH`. In that case the client sends
//! the call to that server again, with the text of the script. The server then keeps the script in
//! its cache.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::connection::Request;

/// The text of a script and its hash.
pub struct ScriptText {
    name: Cow<'static, str>,
    /// Texts that several scripts share. They precede the script's own text.
    preludes: [&'static str; 2],
    text: Cow<'static, str>,
    /// The preludes and the text, once they are needed.
    full_text: OnceLock<Bytes>,
    sha: OnceLock<Bytes>,
}

impl ScriptText {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        ScriptText::with_preludes([""; 2], Cow::Borrowed(name), Cow::Borrowed(text))
    }

    const fn with_preludes(preludes: [&'static str; 2], name: Cow<'static, str>, text: Cow<'static, str>) -> Self {
        ScriptText { name, preludes, text, full_text: OnceLock::new(), sha: OnceLock::new() }
    }

    /// Returns the script's name in errors and traces, such as `lock/acquire`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the script's Lua source, including the preludes.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Returns the script's Lua source as an argument of a request.
    pub(crate) fn bytes(&self) -> &Bytes {
        self.full_text.get_or_init(|| [self.preludes[0], self.preludes[1], &*self.text].concat().into())
    }

    /// Returns the SHA-1 of the text in lower-case hex. Servers identify the script by it.
    pub fn sha(&self) -> &Bytes {
        self.sha.get_or_init(|| sha1_smol::Sha1::from(self.bytes()).digest().to_string().into())
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
    /// A script of the application. The client distinguishes errors that the script returns from
    /// refusals of the server.
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

/// A script whose text is created at run time. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct OwnedScript(Arc<ScriptText>);

impl OwnedScript {
    /// Creates a script from its name (for errors) and text.
    pub fn new(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        OwnedScript(Arc::new(ScriptText::with_preludes([""; 2], name.into(), text.into())))
    }

    /// Returns a call of the script with these keys, which must share a slot. Add arguments to the
    /// returned request.
    ///
    /// Only the server's own refusals are retried. An error that the script itself returns is
    /// final, even if it has the text of a refusal.
    pub fn with(&self, keys: impl IntoIterator<Item = Bytes>) -> Request {
        Request::for_script(ScriptRef::Owned(Arc::clone(&self.0))).keys(keys)
    }

    /// Returns the text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0
    }
}

/// A script that takes exactly `KEYS` keys, all of one slot.
///
/// ```
/// use redgrid_client::{Client, Script, ServerError};
///
/// // Deletes a key if it has the expected value. Sent twice, it answers 0 the second time.
/// static DELETE_IF: Script<1> = Script::new(
///     "delete-if",
///     "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
///      return redis.call('DEL', KEYS[1])",
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
    /// Creates a script from its name (for errors) and text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Script(ScriptText::new(name, text))
    }

    /// Returns a call of the script with these keys. Add arguments to the returned request.
    pub fn with(&'static self, keys: [Bytes; KEYS]) -> Request {
        Request::script(&self.0).keys(keys)
    }

    /// Returns the text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0
    }
}

/// A script with any number of keys, all of one slot.
#[derive(Debug)]
pub struct BulkScript(ScriptText);

impl BulkScript {
    /// Creates a script from its name (for errors) and text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        BulkScript(ScriptText::new(name, text))
    }

    /// Creates a script that begins with `preludes`, texts that several scripts share.
    pub const fn with_preludes(preludes: [&'static str; 2], name: &'static str, text: &'static str) -> Self {
        BulkScript(ScriptText::with_preludes(preludes, Cow::Borrowed(name), Cow::Borrowed(text)))
    }

    /// Returns a call of the script with these keys. Add arguments to the returned request.
    pub fn with(&'static self, keys: impl IntoIterator<Item = Bytes>) -> Request {
        Request::script(&self.0).keys(keys)
    }

    /// Returns the text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.0
    }
}

/// A script that executes many calls of other scripts, each with one key.
///
/// Calls that arrive while others are in flight are sent together, as one request. `KEYS` contains
/// the key of each call; the keys of [`Release`](BatchPhase::Release) calls come first. `ARGV`
/// contains:
///
/// - the number of `Release` calls;
/// - the earliest [`not_after`](Request::not_after) of all calls, in microseconds of the server's
///   clock; 0 if no call has one;
/// - the command that the script must use to publish messages (PUBLISH or SPUBLISH);
/// - the arguments of each call, in the order of the keys.
///
/// The script returns a list. Its first element is the server's time, in the form in which the
/// scripts for single calls return it. The replies to the calls follow. If a reply is an error, its
/// call changed nothing. If the reply to an [`Acquire`](BatchPhase::Acquire) call is a number, it
/// is an abbreviation: 1 stands for the server's time, and any other number `n` for the list
/// `{n, time, 0}`.
#[derive(Debug)]
pub struct BatchScript {
    body: ScriptText,
    pub(crate) arg_count: usize,
}

/// The part of a batch to which a call belongs. Releases are executed before acquires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum BatchPhase {
    /// A call that releases a hold.
    Release,
    /// A call that acquires a hold.
    Acquire,
}

impl BatchScript {
    /// Creates a script from its name (for errors) and text. Each call has `arg_count` arguments of
    /// its own.
    pub const fn new(name: &'static str, text: &'static str, arg_count: usize) -> Self {
        BatchScript { body: ScriptText::new(name, text), arg_count }
    }

    /// Returns the text and its hash.
    pub fn body(&self) -> &ScriptText {
        &self.body
    }
}
