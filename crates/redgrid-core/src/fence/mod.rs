//! A fence protects data in Redis from writers whose lock has passed on to another holder.

mod error;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::{Client, IntoArg, Request, Script, ServerError};

pub use self::error::FenceError;
pub use self::write::Write;
use crate::author::ClientExt;
use crate::failure::{Failure, Operation};
use crate::name::{InvalidName, Name, companion, same_slot};
use crate::object::SetTtl;
use crate::observe::count;
use crate::token::Token;

static CHECK: Script<1> = Script::new("fence/check", include_str!("scripts/check.lua"));
static WRITE: Script<3> = Script::new("fence/write", include_str!("scripts/write.lua"));

/// How long a fence remembers the highest token by default, counted from the last token that
/// passed: 30 days, like the longest lease.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The shortest lifetime of a fence: 1 minute.
///
/// A fresh token must not count as too old because a call takes long, or because the clocks of two
/// servers differ. Both times are usually much shorter than a minute.
const MIN_LIFETIME: Duration = Duration::from_secs(60);

/// Returns the key of the fence that guards the key `guarded`.
pub(crate) fn key(guarded: &[u8]) -> Bytes {
    companion("redgrid_fence", guarded)
}

/// Number of the next fenced write of this process. The key that stores the reply of a write
/// contains this number, which makes the key unique.
static NEXT_CALL: AtomicU64 = AtomicU64::new(1);

/// A fence remembers the highest [`Token`] that has passed it, and rejects writes with lower
/// tokens. A token passes if the fence accepts it.
///
/// A process that was paused may write after its lease has ended. A lease cannot prevent that; a
/// fence can. The server checks the token and writes in one step, so no other write comes in
/// between.
///
/// ```no_run
/// # async fn demo(
/// #     client: &redgrid_core::Client,
/// #     token: redgrid_core::Token,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_core::fence::{Fence, FenceError};
///
/// let fence = Fence::new(client, "{ledger}");
/// // `token` is from a lock that protects the ledger: `guard.token()`.
/// match fence.set("{ledger}:total", "500", token).await {
///     Ok(()) => {}
///     Err(FenceError::Stale { highest, .. }) => {
///         eprintln!("{highest} has written since: nothing is written")
///     }
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(()) }
/// ```
///
/// # Names
///
/// A fence guards the key of its own name, and every key with the same hash tag: `{ledger}` guards
/// `{ledger}:total`. For a client without a namespace, `ledger` and `{ledger}` are the same fence.
/// All tokens of a fence must come from one lock. A `QuorumLock` counts as one lock.
///
/// # Lifetime
///
/// The fence remembers the highest token until 30 days after the last token has passed (see
/// [`Fence::lifetime`]). Tokens are times. When the fence forgets the highest token, that token is
/// more than 30 days old, and lower tokens are older still. From then on, the fence rejects every
/// token that is more than 30 days old. So it still rejects all of these tokens.
///
/// If a token is later than the time of the fence's server, the fence adds the difference to the
/// time for which it remembers the token. If a holder writes nothing for longer than the lifetime,
/// its next write fails with [`FenceError::Expired`], and the holder must acquire the lock again.
/// All clients should use the same lifetime. If the server loses its data, it loses the fence, too.
#[derive(Debug, Clone)]
pub struct Fence {
    client: Client,
    guarded: Result<Guarded, InvalidName>,
    lifetime: Option<Duration>,
    /// The label in metrics.
    family: &'static str,
}

#[derive(Debug, Clone)]
struct Guarded {
    name: Name,
    key: Bytes,
}

impl Fence {
    /// Creates a handle of the fence with this name.
    ///
    /// No request is sent. An invalid name is reported by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let guarded = Name::of_key(name).map(|name| {
            let key = key(&client.key(&name));
            Guarded { name, key }
        });
        Fence { client: client.clone(), guarded, lifetime: Some(LIFETIME), family: "" }
    }

    /// Sets the label `family` in metrics: a constant that groups fences that belong together.
    pub fn family(mut self, family: &'static str) -> Self {
        count::fence_family(family);
        self.family = family;
        self
    }

    /// Sets how long the fence remembers the highest token after the last token has passed.
    ///
    /// Once the highest token is forgotten, only the age of a token decides: tokens older than this
    /// lifetime are rejected. The lifetime is 1 minute at least, and 30 days by default.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime.max(MIN_LIFETIME));
        self
    }

    /// Remembers the highest token forever, and never rejects a token because of its age.
    ///
    /// Use this for tokens that are not times. For example, Redisson's tokens are counters. The key
    /// of the fence stays until it is deleted.
    pub fn without_lifetime(mut self) -> Self {
        self.lifetime = None;
        self
    }

    /// Checks `token`, which passes if no higher token has passed before. If `token` passes, the
    /// fence rejects lower tokens from then on.
    ///
    /// Call this before changes that cannot be fenced one by one. The result is valid only for the
    /// moment of the check. Writes of this fence need no such call, because each write checks its
    /// token.
    ///
    /// The request is idempotent, so it is sent again after a lost reply.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a higher token has passed before. [`FenceError::Expired`] if the
    /// fence remembers no token, and `token` is older than the lifetime of the fence.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the token may or may not have passed.
    pub async fn check_and_set(&self, token: Token) -> Result<(), FenceError> {
        let guarded = self.guarded()?;
        let request = CHECK.with([guarded.key.clone()]).arg(token.to_string()).int(self.lifetime_millis());
        let reply = self.client.run::<(i64, Bytes)>(request.idempotent()).await;
        self.parse_reply(guarded, token, reply).map(drop)
    }

    /// Returns the highest token that has passed, if one is remembered.
    ///
    /// # Errors
    ///
    /// [`FenceError`] if the request fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn highest(&self) -> Result<Option<Token>, FenceError> {
        let guarded = self.guarded()?;
        let request = Request::command("GET").key(guarded.key.clone()).idempotent();
        let highest = self.client.run::<Option<u64>>(request).await;
        highest.map(|highest| highest.map(Token::new)).map_err(|source| guarded.write_error(source))
    }

    /// Sets `key` to `value` if `token` is not stale.
    ///
    /// After a lost reply the write is sent again, but it is executed only once. The server stores
    /// the reply of the write for as long as a retransmission can be in flight. So a late
    /// retransmission does not overwrite later writes of the same holder.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether the value was written.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may already be written, or may still be written within
    /// the client's `response_timeout`.
    pub async fn set(&self, key: impl AsRef<str>, value: impl IntoArg, token: Token) -> Result<(), FenceError> {
        self.write(key, Write::Set { value: value.into_arg(), ttl: SetTtl::None }, token).await.map(drop)
    }

    /// Sets a field of the hash `key` if `token` is not stale. Returns true if the field is new.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether the field was written.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn hash_set(
        &self,
        key: impl AsRef<str>,
        field: impl IntoArg,
        value: impl IntoArg,
        token: Token,
    ) -> Result<bool, FenceError> {
        let fields = vec![(field.into_arg(), value.into_arg())];
        Ok(self.write(key, Write::HashSet { fields }, token).await? > 0)
    }

    /// Adds `by` to the number under `key` if `token` is not stale. Returns the sum.
    ///
    /// An absent key counts as 0.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether the number was changed.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn increment(&self, key: impl AsRef<str>, by: i64, token: Token) -> Result<i64, FenceError> {
        self.write(key, Write::Increment { by }, token).await
    }

    /// Deletes `key` if `token` is not stale. Returns true if the key existed.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether the key was deleted.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn delete(&self, key: impl AsRef<str>, token: Token) -> Result<bool, FenceError> {
        Ok(self.write(key, Write::Delete, token).await? > 0)
    }

    /// Executes a write on `key` if `token` is not stale. Object types use this method for their
    /// fenced writes.
    ///
    /// Returns 1 for [`Write::Set`], the sum for [`Write::Increment`], and the number of new fields
    /// for [`Write::HashSet`]. For [`Write::HashDelete`], returns how many of the fields existed.
    /// For [`Write::Delete`], returns 1 if the key existed, otherwise 0.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether the write was executed.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn write(&self, key: impl AsRef<str>, write: Write, token: Token) -> Result<i64, FenceError> {
        let guarded = self.guarded()?;
        let name = Name::of_key(key)?;
        let (command, args) = write.command(&name)?;
        let key = self.client.key(&name);
        if !same_slot(&key, &guarded.key) {
            return Err(FenceError::OtherSlot { name: guarded.name.clone(), key: name });
        }
        let call_number = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        let suffix = format!(":{}:{call_number}", self.client.id());
        let reply_key = Bytes::from([&guarded.key[..], suffix.as_bytes()].concat());
        // The request is retransmitted for `patience` at most. The last transmission is executed
        // within one response timeout, which is no longer than `patience`. So the reply is stored
        // for twice `patience`, plus 1 s.
        let reply_ttl = millis(2 * self.client.patience()) + 1_000;
        let request = WRITE.with([key, guarded.key.clone(), reply_key]).arg(token.to_string());
        let request = request.int(self.lifetime_millis()).int(reply_ttl).deadline_arg().arg(command);
        let request = args.into_iter().fold(request, Request::arg).idempotent();
        let send = || self.client.run::<(i64, Bytes)>(request.clone());
        let mut reply = send().await;
        if let Ok((TOO_LATE, _)) = reply {
            // The deadline may have been too early, because it is computed from a lower bound of
            // the server's clock. Nothing was executed, so the request is sent once more.
            reply = send().await;
        }
        let reply = self.parse_reply(guarded, token, reply)?;
        let number = std::str::from_utf8(&reply).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| {
            let got = String::from_utf8_lossy(&reply).into_owned();
            guarded.write_error(ServerError::Decode { expected: "a whole number", got })
        })
    }

    fn parse_reply(
        &self,
        guarded: &Guarded,
        token: Token,
        reply: Result<(i64, Bytes), ServerError>,
    ) -> Result<Bytes, FenceError> {
        let name = guarded.name.clone();
        let reply = reply.map_err(|source| guarded.write_error(source))?;
        if let (STALE | EXPIRED, _) = reply {
            count::fence_refused(self.family);
        }
        match reply {
            (PASSED, reply) => Ok(reply),
            (STALE, highest) => {
                let highest = std::str::from_utf8(&highest).ok().and_then(|text| text.parse().ok());
                let highest = Token::new(highest.unwrap_or(u64::MAX));
                Err(FenceError::Stale { name, token, highest })
            }
            (EXPIRED, _) => Err(FenceError::Expired { name, token, lifetime: self.lifetime.unwrap_or_default() }),
            (TOO_LATE, _) => {
                let reason = "the request reached the server too late, twice: the server's clock jumps".into();
                Err(guarded.write_error(ServerError::Unknown { reason }))
            }
            (other, _) => {
                Err(guarded
                    .write_error(ServerError::Decode { expected: "a status of a fence", got: other.to_string() }))
            }
        }
    }

    fn guarded(&self) -> Result<&Guarded, FenceError> {
        self.guarded.as_ref().map_err(|invalid| invalid.clone().into())
    }

    fn lifetime_millis(&self) -> i64 {
        self.lifetime.map_or(0, millis)
    }
}

const PASSED: i64 = 1;
const STALE: i64 = 0;
const TOO_LATE: i64 = 2;
const EXPIRED: i64 = 3;

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 1_000_000)
}

impl Guarded {
    fn write_error(&self, source: ServerError) -> FenceError {
        Failure::of_change(Operation::new("write under the fence", &self.name), source).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_a_complete_header() {
        for body in [CHECK.body(), WRITE.body()] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }

    #[test]
    fn the_error_of_a_stale_token_names_both_tokens() {
        let name = Name::new("ledger").unwrap();
        let error = FenceError::Stale { name, token: Token::new(5), highest: Token::new(7) };
        assert_eq!(error.to_string(), "token 5 is stale for the fence `ledger`, which has already accepted token 7");
    }
}
