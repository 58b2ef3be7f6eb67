//! User-defined Lua scripts.

use redgrid_core::OwnedScript;

use crate::call::Call;

/// A Lua script. It is cheap to clone, and its hash is computed once.
///
/// The script is sent by its hash (EVALSHA). If the server does not have it, it is sent again with
/// its text. Its input is in `KEYS` and `ARGV`; every key that it accesses must be in `KEYS`. Lua
/// cannot represent all integers above 2^53: pass such integers as text.
///
/// ```no_run
/// # async fn demo(client: &redgrid_script::Client) -> Result<(), redgrid_script::CallError> {
/// use redgrid_script::Script;
///
/// // Sent twice, it does nothing the second time.
/// let delete_if = Script::new(
///     "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
///      return redis.call('DEL', KEYS[1])",
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
    /// Returns a script with this text. Its name in errors is `script`; see [`Script::named`].
    pub fn new(text: impl Into<String>) -> Self {
        Script::named("script", text)
    }

    /// Returns a script with this text, and a name for errors.
    pub fn named(name: impl Into<String>, text: impl Into<String>) -> Self {
        Script { inner: OwnedScript::new(name.into(), text.into()), idempotent: false, reads: false }
    }

    /// Marks the script as idempotent: see [`Call::idempotent`].
    pub fn idempotent(self) -> Self {
        Script { idempotent: true, ..self }
    }

    /// Marks the script as read-only: see [`Call::reads`].
    pub fn reads(self) -> Self {
        Script { reads: true, ..self }
    }

    /// Returns a call of the script, to which keys and arguments are added.
    #[doc(alias = "evalSha")]
    pub fn call(&self) -> Call {
        let call = Call::script(&self.inner);
        let call = if self.idempotent { call.idempotent() } else { call };
        if self.reads { call.reads() } else { call }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        self.inner.body().text()
    }

    /// Returns the SHA-1 of the text in lower-case hex, which identifies the script on the server.
    pub fn sha(&self) -> String {
        String::from_utf8_lossy(self.inner.body().sha()).into_owned()
    }
}
