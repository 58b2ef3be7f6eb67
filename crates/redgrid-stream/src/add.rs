//! Adding entries, and trimming what is old.

use std::borrow::Borrow;
use std::future::IntoFuture;
use std::pin::Pin;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{IdempotentScript, Request, Script};

use crate::error::{NOT_BEHIND, StreamError};
use crate::id::EntryId;
use crate::stream::{Stream, channel};

static ADD: IdempotentScript<1> = IdempotentScript::new("stream/add", include_str!("scripts/add.lua"));
static TOLD: Script<1> = Script::new("stream/told", include_str!("scripts/told.lua"));

/// How many arguments a script passes on: Lua has room for 8,000 on its stack.
const MOST_PASSED_ON: usize = 7_000;

/// How much of a stream is to be kept.
///
/// ```
/// use redgrid_stream::Trim;
///
/// // About a million, and the server removes whole nodes only: much the cheapest.
/// let trim = Trim::max_len(1_000_000).approximately();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "StreamTrimArgs")]
pub struct Trim {
    keep: Keep,
    approximately: bool,
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Entries(u64),
    From(EntryId),
}

impl Trim {
    /// The newest, so many of them.
    #[doc(alias = "maxLen")]
    pub fn max_len(entries: u64) -> Trim {
        Trim { keep: Keep::Entries(entries), approximately: false, limit: None }
    }

    /// What has this id or a later one.
    #[doc(alias = "minId")]
    pub fn min_id(id: EntryId) -> Trim {
        Trim { keep: Keep::From(id), approximately: false, limit: None }
    }

    /// Keeps some more where that is cheaper: what is removed is a multiple of what the server keeps together, 100 entries unless it is
    /// set up otherwise.
    #[doc(alias = "trimNonStrict")]
    pub fn approximately(self) -> Trim {
        Trim { approximately: true, ..self }
    }

    /// Removes so many at once at the most, 1 or more; only of what is trimmed [approximately](Trim::approximately).
    pub fn limit(self, entries: u64) -> Trim {
        Trim { limit: Some(entries), ..self }
    }

    pub(crate) fn written(self, place: &Place) -> Result<Vec<Bytes>, ObjectError> {
        let (word, bound) = match self.keep {
            Keep::Entries(entries) if i64::try_from(entries).is_err() => {
                return Err(place.invalid("max_len", format_args!("at most {}", i64::MAX), entries));
            }
            Keep::Entries(entries) => ("MAXLEN", entries.to_string()),
            Keep::From(id) => ("MINID", id.to_string()),
        };
        let mut words = vec![word.into(), if self.approximately { "~" } else { "=" }.into(), bound.into()];
        match self.limit {
            None => {}
            Some(_) if !self.approximately => {
                return Err(place.invalid("limit", "none of what is trimmed exactly", "one"));
            }
            // For the server, 0 is no limit.
            Some(limit) if limit == 0 || i64::try_from(limit).is_err() => {
                return Err(place.invalid("limit", format_args!("1 to {}", i64::MAX), limit));
            }
            Some(limit) => words.extend(["LIMIT".into(), limit.to_string().into()]),
        }
        Ok(words)
    }
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// Adds an entry with one field, when awaited; tells its id. [`Add`] has what else can be said.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub fn add<Q: ?Sized>(&self, field: &Q, value: &V) -> Add
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        VC: Encode<V>,
    {
        self.adding([(field, value)])
    }

    /// Adds an entry with these fields, one at least, when awaited; tells its id. [`Add`] has what else can be said.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then; [`ObjectError::InvalidArgument`] of no fields.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    pub fn add_many<'a, Q: ?Sized + 'a>(&self, fields: impl IntoIterator<Item = (&'a Q, &'a V)>) -> Add
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        VC: Encode<V>,
        V: 'a,
    {
        self.adding(fields)
    }

    fn adding<'a, Q: ?Sized + 'a>(&self, fields: impl IntoIterator<Item = (&'a Q, &'a V)>) -> Add
    where
        KC: Encode<Q>,
        VC: Encode<V>,
        V: 'a,
    {
        let both =
            |(field, value)| Ok([self.place.encoded(&self.keys, field)?, self.place.encoded(&self.values, value)?]);
        let fields: Result<Vec<[Bytes; 2]>, ObjectError> = fields.into_iter().map(both).collect();
        let fields = fields.map(|fields| fields.into_iter().flatten().collect());
        Add { place: self.place.clone(), fields, id: None, trim: None, makes: true, once: false }
    }
}

/// Adds an entry when awaited, and tells its id; made by [`Stream::add`] and [`Stream::add_many`].
///
/// Unless it is said otherwise the server chooses the id, makes the stream where there is none, and trims nothing; and it is sent once:
/// where its answer is lost it ends [`ObjectError::OutcomeUnknown`], and is not sent again. Whoever waits for entries through this library is told;
/// an entry of more than 3,490 fields comes to them a moment later.
#[must_use = "nothing is added until this is awaited"]
#[derive(Debug, Clone)]
#[doc(alias = "StreamAddArgs")]
pub struct Add {
    place: Place,
    fields: Result<Vec<Bytes>, ObjectError>,
    id: Option<EntryId>,
    trim: Option<Trim>,
    makes: bool,
    once: bool,
}

impl Add {
    /// With this id, which is to be behind that of the last entry; else it ends [`StreamError::NotBehind`].
    pub fn id(self, id: EntryId) -> Add {
        Add { id: Some(id), ..self }
    }

    /// Trims the stream in the same step.
    pub fn trim(self, trim: Trim) -> Add {
        Add { trim: Some(trim), ..self }
    }

    /// Only where there is a stream; else it ends [`ObjectError::Absent`].
    #[doc(alias = "noMakeStream")]
    pub fn no_mk_stream(self) -> Add {
        Add { makes: false, ..self }
    }

    /// Exactly once, although answers are lost: it is sent again, and the server, which remembers the id for about a minute beside the stream,
    /// tells that of the first time. Such calls of a client about a stream leave one behind another.
    pub fn exactly_once(self) -> Add {
        Add { once: true, ..self }
    }

    async fn run(self) -> Result<EntryId, StreamError> {
        let Add { place, fields, id, trim, makes, once } = self;
        let (name, key) = place.named()?;
        let fields = fields?;
        if fields.is_empty() {
            return Err(place.invalid("fields", "one at least", "none").into());
        }
        if id == Some(EntryId::MIN) {
            return Err(place.invalid("id", "one behind 0-0", EntryId::MIN).into());
        }
        let mut words: Vec<Bytes> = Vec::with_capacity(fields.len() + 8);
        words.extend((!makes).then(|| Bytes::from_static(b"NOMKSTREAM")));
        words.extend(trim.map(|trim| trim.written(&place)).transpose()?.unwrap_or_default());
        words.push(id.map_or(Bytes::from_static(b"*"), EntryId::bytes));
        words.extend(fields);
        let fits = words.len() <= MOST_PASSED_ON;
        let client = place.client();
        let added: Result<Option<EntryId>, _> = if fits {
            let head = ADD.with([key.clone()]).publish_here().arg(channel(key));
            let whole = words.into_iter().fold(head, |request, word| request.arg(word));
            let answer: Result<Vec<EntryId>, _> = match once {
                true => client.run_exactly_once(whole).await,
                false => client.run_at_most_once(whole, client.clock().now() + client.patience()).await,
            };
            answer.map(|mut answer| answer.pop())
        } else if once {
            let most = (MOST_PASSED_ON - 8) / 2;
            let expected = format_args!("up to {most} of what is added exactly once");
            return Err(place.invalid("fields", expected, words.len() / 2).into());
        } else {
            let added = client.run(words.into_iter().fold(place.command("XADD")?, Request::arg)).await;
            if let Ok(Some(id)) = &added {
                let id: &EntryId = id;
                client.run_later(TOLD.with([key.clone()]).publish_here().arg(channel(key)).arg(id.bytes()));
            }
            added
        };
        match added.map_err(|source| ObjectError::of(name, source)) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(ObjectError::Absent { name: name.clone() }.into()),
            Err(error) => match (id, StreamError::words(&error)) {
                (Some(id), Some(words)) if words.contains(NOT_BEHIND) => {
                    Err(StreamError::NotBehind { name: name.clone(), id })
                }
                _ => Err(error.into()),
            },
        }
    }
}

impl IntoFuture for Add {
    type Output = Result<EntryId, StreamError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// As [`Stream::add`].
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
