//! A fence: what is written in Redis refuses the writers whose lock has passed on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::connection::{Client, Request};
use crate::error::ServerError;
use crate::name::{InvalidName, Name, companion, same_slot};
use crate::object::Lives;
use crate::script::Script;
use crate::token::Token;

static CHECK: Script<1> = Script::new("fence/check", include_str!("scripts/check.lua"));
static WRITE: Script<3> = Script::new("fence/write", include_str!("scripts/write.lua"));

/// How long a fence is remembered after the last token that passed: 30 days, as long as the longest lease.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The shortest: 1 minute, far above what the clocks of two servers and the calls of a client differ by.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(60);

/// How many fields one write has at most: a script has no room for more.
const MOST_FIELDS: usize = 3_000;

/// Where the fence of what has this key remembers.
pub(crate) fn key(guarded: &[u8]) -> Bytes {
    companion("redgrid_fence", guarded)
}

/// Tells the calls of this process apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Guards what is written in Redis: it remembers the highest [`Token`] that has passed, and refuses lower ones.
///
/// A lease can not stop a process that was paused from writing late; this can. The check and the write are one step of the
/// server, so no timing lets a stale writer in between.
///
/// ```no_run
/// # async fn demo(client: &redgrid_core::Client, token: redgrid_core::Token) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_core::fence::{Fence, FenceError};
///
/// let fence = Fence::new(client, "{ledger}");
/// // Of a lock that guards the ledger: `guard.token()`.
/// match fence.set("{ledger}:total", "500", token).await {
///     Ok(()) => {}
///     Err(FenceError::Stale { highest, .. }) => eprintln!("{highest} has written since: nothing is written"),
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(()) }
/// ```
///
/// # Names
///
/// A fence guards the key of its own name, and every key with the same hash tag: `{ledger}` guards `{ledger}:total`. The fences
/// `ledger` and `{ledger}` guard the same keys, and are one. All tokens that it is shown must come from one lock (or from one name of a quorum).
///
/// # How long it remembers
///
/// Until 30 days after the last token that passed ([`Fence::lifetime`]). When it has forgotten, it refuses tokens that are
/// older than that: a token is a time, so what was granted before the forgotten one is refused although nothing is
/// remembered. Where tokens are ahead of the clock of the fence's server, it remembers them for the lead as well. A holder that has held its lock for longer than that without a write is told [`FenceError::Aged`] and has
/// to acquire anew. Use the same lifetime everywhere. What the server loses with its memory, the fence loses with the data.
#[derive(Debug, Clone)]
pub struct Fence {
    client: Client,
    guarded: Result<Guarded, InvalidName>,
    lifetime: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Guarded {
    name: Name,
    key: Bytes,
}

impl Fence {
    /// The fence with this name. Making one asks nobody: an invalid name is told by the first call.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let guarded = Name::of_key(name).map(|name| {
            let key = key(&client.key(&name));
            Guarded { name, key }
        });
        Fence { client: client.clone(), guarded, lifetime: Some(LIFETIME) }
    }

    /// Remembers for this long after the last token that passed, and refuses older tokens when it has forgotten: a minute
    /// at least, 30 days unless set.
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime.max(SHORTEST_LIFETIME));
        self
    }

    /// Remembers for ever, and lets tokens pass whatever their age: for tokens that are no times, such as those that Redisson
    /// counts. Its key stays until somebody deletes it.
    pub fn without_lifetime(mut self) -> Self {
        self.lifetime = None;
        self
    }

    /// Lets `token` pass, and none below it from now on: what a holder does first, before it writes what can not be
    /// fenced write by write. A check says nothing about a moment later; the writes of this fence check each for itself.
    ///
    /// Sent again after a lost reply: twice is once.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] when a higher token has passed before.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the token may or may not have passed.
    pub async fn check_and_set(&self, token: Token) -> Result<(), FenceError> {
        let guarded = self.guarded()?;
        let request = CHECK.with([guarded.key.clone()]).arg(token.to_string()).int(self.lifetime_millis());
        let answer = self.client.run::<(i64, Bytes)>(request.idempotent()).await;
        self.passed(guarded, token, answer).map(drop)
    }

    /// The highest token that has passed, if one is remembered.
    ///
    /// # Errors
    ///
    /// [`FenceError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn highest(&self) -> Result<Option<Token>, FenceError> {
        let guarded = self.guarded()?;
        let request = Request::command("GET").key(guarded.key.clone()).idempotent();
        let highest = self.client.run::<Option<u64>>(request).await;
        highest.map(|highest| highest.map(Token::new)).map_err(|source| guarded.failed(source))
    }

    /// Sets `key` to `value`, if `token` is not stale.
    ///
    /// Every write of a fence is sent again after a lost reply, and carried out once: its answer is remembered beside the
    /// fence while any copy may be under way. So a late copy does not undo what the same holder has written since.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether it is written.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may be written, now or within the client's `response_timeout`.
    pub async fn set(&self, key: impl AsRef<str>, value: impl Into<Bytes>, token: Token) -> Result<(), FenceError> {
        self.write(key, Write::Set { value: value.into(), lives: Lives::On }, token).await.map(drop)
    }

    /// Sets a field of the hash `key`, if `token` is not stale: true when the field is new.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether it is written.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn hash_set(
        &self,
        key: impl AsRef<str>,
        field: impl Into<Bytes>,
        value: impl Into<Bytes>,
        token: Token,
    ) -> Result<bool, FenceError> {
        let fields = vec![(field.into(), value.into())];
        Ok(self.write(key, Write::HashSet { fields }, token).await? > 0)
    }

    /// Adds `by` to the number under `key`, which is 0 where there is none, if `token` is not stale. Answers the sum.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether it is written.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn increment(&self, key: impl AsRef<str>, by: i64, token: Token) -> Result<i64, FenceError> {
        self.write(key, Write::Increment { by }, token).await
    }

    /// Deletes `key`, if `token` is not stale: true when it was there.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether it is deleted.
    ///
    /// # Cancel safety
    ///
    /// As [`Fence::set`].
    pub async fn delete(&self, key: impl AsRef<str>, token: Token) -> Result<bool, FenceError> {
        Ok(self.write(key, Write::Delete, token).await? > 0)
    }

    /// Carries out a write on `key`, if `token` is not stale: what objects that hold values do, too. Answers 1 for
    /// [`Write::Set`], the sum for [`Write::Increment`], and how many were new, or there, for the others.
    ///
    /// # Errors
    ///
    /// [`FenceError`] says whether it is written.
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
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let call = format!(":{}:{number}", self.client.id());
        let memory = Bytes::from([&guarded.key[..], call.as_bytes()].concat());
        // A copy leaves within the client's patience and is carried out within its timeout, which is less than that.
        let remember = millis(2 * self.client.patience()) + 1_000;
        let request = WRITE.with([key, guarded.key.clone(), memory]).arg(token.to_string());
        let request = request.int(self.lifetime_millis()).int(remember).not_after_here().arg(command);
        let request = args.into_iter().fold(request, Request::arg).idempotent();
        let ask = || self.client.run::<(i64, Bytes)>(request.clone());
        let mut answer = ask().await;
        if let Ok((TOO_LATE, _)) = answer {
            // Its time limit is from a lower bound of the server's clock: the answer of nobody, so once more.
            answer = ask().await;
        }
        let answer = self.passed(guarded, token, answer)?;
        let number = std::str::from_utf8(&answer).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| {
            let got = String::from_utf8_lossy(&answer).into_owned();
            guarded.failed(ServerError::Decode { expected: "a whole number", got })
        })
    }

    fn passed(
        &self,
        guarded: &Guarded,
        token: Token,
        answer: Result<(i64, Bytes), ServerError>,
    ) -> Result<Bytes, FenceError> {
        let name = guarded.name.clone();
        match answer.map_err(|source| guarded.failed(source))? {
            (PASSED, answer) => Ok(answer),
            (STALE, highest) => {
                let highest = std::str::from_utf8(&highest).ok().and_then(|text| text.parse().ok());
                let highest = Token::new(highest.unwrap_or(u64::MAX));
                Err(FenceError::Stale { name, token, highest })
            }
            (AGED, _) => Err(FenceError::Aged { name, token, lifetime: self.lifetime.unwrap_or_default() }),
            (TOO_LATE, _) => {
                let reason = "the server found the request too late, twice: its clock jumps".into();
                Err(guarded.failed(ServerError::Unknown { reason }))
            }
            (other, _) => {
                Err(guarded.failed(ServerError::Decode { expected: "a status of a fence", got: other.to_string() }))
            }
        }
    }

    fn guarded(&self) -> Result<&Guarded, FenceError> {
        self.guarded.as_ref().map_err(|invalid| FenceError::InvalidName(invalid.clone()))
    }

    fn lifetime_millis(&self) -> i64 {
        self.lifetime.map_or(0, millis)
    }
}

const PASSED: i64 = 1;
const STALE: i64 = 0;
const TOO_LATE: i64 = 2;
const AGED: i64 = 3;

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 1_000_000)
}

impl Guarded {
    fn failed(&self, source: ServerError) -> FenceError {
        let name = self.name.clone();
        match source {
            ServerError::Unknown { .. } | ServerError::Decode { .. } => FenceError::OutcomeUnknown { name, source },
            source => FenceError::NotWritten { name, source },
        }
    }
}

/// What is written under a fence.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Write {
    /// The key is that.
    Set {
        /// What it is then.
        value: Bytes,
        /// How long it lives.
        lives: Lives,
    },
    /// Fields of a hash get values.
    HashSet {
        /// The fields and their values: 1 to 3,000.
        fields: Vec<(Bytes, Bytes)>,
    },
    /// Fields of a hash go.
    HashDelete {
        /// The fields: 1 to 3,000.
        fields: Vec<Bytes>,
    },
    /// A number gets larger.
    Increment {
        /// By how much.
        by: i64,
    },
    /// The key goes.
    Delete,
}

impl Write {
    fn command(self, name: &Name) -> Result<(&'static str, Vec<Bytes>), FenceError> {
        let count = match &self {
            Write::HashSet { fields } => fields.len(),
            Write::HashDelete { fields } => fields.len(),
            _ => 1,
        };
        if !(1..=MOST_FIELDS).contains(&count) {
            return Err(FenceError::InvalidArgument {
                name: name.clone(),
                option: "fields",
                expected: format!("1 to {MOST_FIELDS} at a time"),
                got: count.to_string(),
            });
        }
        Ok(match self {
            Write::Set { value, lives } => {
                let options = lives.as_options().map_err(|unfit| FenceError::InvalidArgument {
                    name: name.clone(),
                    option: "lifetime",
                    expected: unfit.expected.into(),
                    got: unfit.got,
                })?;
                ("SET", std::iter::once(value).chain(options).collect())
            }
            Write::HashSet { fields } => {
                ("HSET", fields.into_iter().flat_map(|(field, value)| [field, value]).collect())
            }
            Write::HashDelete { fields } => ("HDEL", fields),
            Write::Increment { by } => ("INCRBY", vec![by.to_string().into()]),
            Write::Delete => ("DEL", Vec::new()),
        })
    }
}

/// Why a fence let nothing pass.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A newer holder has passed before. Nothing is written.
    #[error("token {token} is stale for `{name}`: {highest} has passed before")]
    Stale {
        /// The fence.
        name: Name,
        /// The token that is refused.
        token: Token,
        /// The highest that has passed.
        highest: Token,
    },
    /// The fence remembers nothing, and the token was granted longer ago than it remembers: a newer one may have passed.
    /// Nothing is written.
    #[error("token {token} is older than what the fence `{name}` remembers ({lifetime:?})")]
    Aged {
        /// The fence.
        name: Name,
        /// The token that is refused.
        token: Token,
        /// How long the fence remembers.
        lifetime: Duration,
    },
    /// The key is not one that this fence guards: it has neither its name nor its hash tag. Nothing was asked.
    #[error("the fence `{name}` does not guard `{key}`: they have different hash tags")]
    OtherSlot {
        /// The fence.
        name: Name,
        /// What was to be written.
        key: Name,
    },
    /// Not asked, or refused: wrong type under the key, no permission, no memory. Nothing is written.
    #[error("could not write under the fence `{name}`")]
    NotWritten {
        /// The fence.
        name: Name,
        /// What stood in the way.
        #[source]
        source: ServerError,
    },
    /// Asked, and no answer came. It may be written, now or a moment later.
    #[error("wrote under the fence `{name}` and got no answer; the outcome is unknown")]
    OutcomeUnknown {
        /// The fence.
        name: Name,
        /// What happened to the answer.
        #[source]
        source: ServerError,
    },
    /// An argument can not be. Nothing was asked.
    #[error("invalid {option} for `{name}`: expected {expected}, got {got}")]
    InvalidArgument {
        /// What was to be written.
        name: Name,
        /// What was given.
        option: &'static str,
        /// What is allowed.
        expected: String,
        /// What it was.
        got: String,
    },
    /// The name of the fence, or of the key, can not be used. Nothing was asked.
    #[error(transparent)]
    InvalidName(#[from] InvalidName),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_tells_its_contract() {
        for body in [CHECK.body(), WRITE.body()] {
            for part in ["-- KEYS", "-- Returns", "-- Work:", "ent twice"] {
                assert!(body.text().contains(part), "{}: {part}", body.name());
            }
        }
    }

    #[test]
    fn a_stale_token_is_told_with_both() {
        let name = Name::new("ledger").unwrap();
        let error = FenceError::Stale { name, token: Token::new(5), highest: Token::new(7) };
        assert_eq!(error.to_string(), "token 5 is stale for `ledger`: 7 has passed before");
    }
}
