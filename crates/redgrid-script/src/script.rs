//! A script of a user.

use std::borrow::Cow;

use redgrid_core::OwnedScript;

use crate::call::Call;

/// A Lua script. Cheap to clone; its hash is computed once.
///
/// It is sent by its hash (EVALSHA), and once more with its text where the server does not know it. What it is given comes by `KEYS` and
/// `ARGV`; every key that it touches is to be in `KEYS`. Whole numbers beyond 2^53 lose digits in Lua: leave them as text there.
///
/// ```no_run
/// # async fn demo(client: &redgrid_script::Client) -> Result<(), redgrid_script::CallError> {
/// use redgrid_script::Script;
///
/// // Sent twice it does nothing the second time.
/// let delete_if = Script::new(
///     "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
/// ).idempotent();
/// let deleted: bool = delete_if.call().key("greeting").arg("hello").query(client).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[doc(alias = "RScript")]
#[doc(alias = "evalSha")]
pub struct Script {
    inner: OwnedScript,
    idempotent: bool,
    reads: bool,
}

impl Script {
    /// A script with this text. In errors it is called `script`; [`Script::named`] has another name for it.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Script::named("script", text)
    }

    /// The same with a name for errors.
    pub fn named(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        Script { inner: OwnedScript::new(name, text), idempotent: false, reads: false }
    }

    /// Says that running it twice is the same as once: see [`Call::idempotent`].
    pub fn idempotent(self) -> Self {
        Script { idempotent: true, ..self }
    }

    /// Says that it only reads: see [`Call::reads`].
    pub fn reads(self) -> Self {
        Script { reads: true, ..self }
    }

    /// A call of it: keys and arguments are added.
    #[doc(alias = "evalSha")]
    pub fn call(&self) -> Call {
        let call = Call::script(&self.inner);
        let call = if self.idempotent { call.idempotent() } else { call };
        if self.reads { call.reads() } else { call }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        self.inner.body().text()
    }

    /// The SHA-1 of its text in lower-case hex, by which servers know it.
    pub fn sha(&self) -> String {
        String::from_utf8_lossy(self.inner.body().sha()).into_owned()
    }
}
