//! Adding entries, and trimming old ones.

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::author::ClientExt;
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{IdempotentScript, Request, Script};

use crate::error::{ID_TOO_SMALL, StreamError};
use crate::id::EntryId;
use crate::stream::{Stream, channel};

static ADD: IdempotentScript<1> = IdempotentScript::new("stream/add", include_str!("scripts/add.lua"));
static NOTIFY: Script<1> = Script::new("stream/notify", include_str!("scripts/notify.lua"));

/// The maximum number of arguments that the script passes to XADD: Lua's `unpack` is limited to
/// 8,000 values.
const MAX_SCRIPT_ARGS: usize = 7_000;

/// Which entries of a stream are kept when it is trimmed.
///
/// ```
/// use redgrid_stream::Trim;
///
/// // About a million: the server removes only whole nodes, which is by far the cheapest.
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
    /// Keeps this number of the newest entries.
    #[doc(alias = "maxLen")]
    pub fn max_len(entries: u64) -> Trim {
        Trim { keep: Keep::Entries(entries), approximately: false, limit: None }
    }

    /// Keeps the entries with this or a larger id.
    #[doc(alias = "minId")]
    pub fn min_id(id: EntryId) -> Trim {
        Trim { keep: Keep::From(id), approximately: false, limit: None }
    }

    /// Allows the server to keep some more entries if that is cheaper.
    ///
    /// The server then removes only whole nodes of the stream, of 100 entries unless it is
    /// configured otherwise.
    #[doc(alias = "trimNonStrict")]
    pub fn approximately(self) -> Trim {
        Trim { approximately: true, ..self }
    }

    /// Limits the number of entries removed at once, 1 or more.
    ///
    /// Allowed only with [`Trim::approximately`].
    pub fn limit(self, entries: u64) -> Trim {
        Trim { limit: Some(entries), ..self }
    }

    pub(crate) fn to_args(self, object_ref: &ObjectRef) -> Result<Vec<Bytes>, ObjectError> {
        let (strategy, bound) = match self.keep {
            Keep::Entries(entries) if i64::try_from(entries).is_err() => {
                return Err(object_ref.invalid("max_len", format_args!("at most {}", i64::MAX), entries));
            }
            Keep::Entries(entries) => ("MAXLEN", entries.to_string()),
            Keep::From(id) => ("MINID", id.to_string()),
        };
        let mut args = vec![strategy.into(), if self.approximately { "~" } else { "=" }.into(), bound.into()];
        match self.limit {
            None => {}
            Some(_) if !self.approximately => {
                return Err(object_ref.invalid("limit", "none for an exact trim", "one"));
            }
            // The server interprets 0 as no limit.
            Some(limit) if limit == 0 || i64::try_from(limit).is_err() => {
                return Err(object_ref.invalid("limit", format_args!("1 to {}", i64::MAX), limit));
            }
            Some(limit) => args.extend(["LIMIT".into(), limit.to_string().into()]),
        }
        Ok(args)
    }
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// Adds an entry with one field, when awaited, and returns its id. [`Add`] has the options.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub fn add<Q: ?Sized>(&self, field: &Q, value: &V) -> Add
    where
        VC: Encode<V>,
        KC: EncodesFor<K, Q>,
    {
        self.add_request([(field, value)])
    }

    /// Adds an entry with these fields, at least one, when awaited, and returns its id.
    ///
    /// [`Add`] has the options.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) without fields.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    pub fn add_many<'a, Q: ?Sized + 'a>(&self, fields: impl IntoIterator<Item = (&'a Q, &'a V)>) -> Add
    where
        VC: Encode<V>,
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        self.add_request(fields)
    }

    fn add_request<'a, Q: ?Sized + 'a>(&self, fields: impl IntoIterator<Item = (&'a Q, &'a V)>) -> Add
    where
        VC: Encode<V>,
        V: 'a,
        KC: Encode<Q>,
    {
        let encode_pair = |(field, value)| {
            Ok([self.object_ref.encoded(&self.keys, field)?, self.object_ref.encoded(&self.values, value)?])
        };
        let fields: Result<Vec<[Bytes; 2]>, ObjectError> = fields.into_iter().map(encode_pair).collect();
        let fields = fields.map(|fields| fields.into_iter().flatten().collect());
        Add {
            object_ref: self.object_ref.clone(),
            fields,
            id: None,
            trim: None,
            make_stream: true,
            exactly_once: false,
        }
    }
}

/// Adds an entry when awaited, and returns its id; made by [`Stream::add`] and
/// [`Stream::add_many`].
///
/// By default the server chooses the id, creates the stream if it does not exist, and trims
/// nothing. The request is sent once: if its reply is lost, the call returns
/// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown) and is not repeated. Waiters that
/// use this library are notified. For an entry of more than 3,490 fields, the notification is sent
/// in a separate request, a moment later.
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
#[doc(alias = "StreamAddArgs")]
pub struct Add {
    object_ref: ObjectRef,
    fields: Result<Vec<Bytes>, ObjectError>,
    id: Option<EntryId>,
    trim: Option<Trim>,
    make_stream: bool,
    exactly_once: bool,
}

impl Add {
    /// Sets the id. If it is not larger than the id of the last entry, the call fails with
    /// [`StreamError::IdTooSmall`].
    pub fn id(self, id: EntryId) -> Add {
        Add { id: Some(id), ..self }
    }

    /// Trims the stream in the same request.
    pub fn trim(self, trim: Trim) -> Add {
        Add { trim: Some(trim), ..self }
    }

    /// Adds the entry only if the stream exists; otherwise the call fails with
    /// [`ObjectError::Absent`].
    #[doc(alias = "noMakeStream")]
    pub fn no_mk_stream(self) -> Add {
        Add { make_stream: false, ..self }
    }

    /// Adds the entry exactly once, even if replies are lost.
    ///
    /// The request is sent again after a lost reply. For about a minute, the server stores the id
    /// in a key next to the stream, and returns it for repeated requests. A client sends such
    /// requests for a stream one after another.
    pub fn exactly_once(self) -> Add {
        Add { exactly_once: true, ..self }
    }

    async fn run(self) -> Result<EntryId, StreamError> {
        let Add { object_ref, fields, id, trim, make_stream, exactly_once } = self;
        let (name, key) = object_ref.name_and_key()?;
        let fields = fields?;
        if fields.is_empty() {
            return Err(object_ref.invalid("fields", "at least one", "none").into());
        }
        if id == Some(EntryId::MIN) {
            return Err(object_ref.invalid("id", "an id after 0-0", EntryId::MIN).into());
        }
        let mut args: Vec<Bytes> = Vec::with_capacity(fields.len() + 8);
        args.extend((!make_stream).then(|| Bytes::from_static(b"NOMKSTREAM")));
        args.extend(trim.map(|trim| trim.to_args(&object_ref)).transpose()?.unwrap_or_default());
        args.push(id.map_or(Bytes::from_static(b"*"), EntryId::to_bytes));
        args.extend(fields);
        let fits_script = args.len() <= MAX_SCRIPT_ARGS;
        let client = object_ref.client();
        let added: Result<Option<EntryId>, _> = if fits_script {
            let request = ADD.with([key.clone()]).publish_arg().arg(channel(key));
            let request = args.into_iter().fold(request, |request, arg| request.arg(arg));
            let reply: Result<Vec<EntryId>, _> = if exactly_once {
                client.run_exactly_once(request).await
            } else {
                client.run_at_most_once(request, client.clock().now() + client.patience()).await
            };
            reply.map(|mut ids| ids.pop())
        } else if exactly_once {
            let max_fields = (MAX_SCRIPT_ARGS - 8) / 2;
            let expected = format_args!("up to {max_fields} for an entry that is added exactly once");
            return Err(object_ref.invalid("fields", expected, args.len() / 2).into());
        } else {
            let added = client.run(args.into_iter().fold(object_ref.command("XADD")?, Request::arg)).await;
            if let Ok(Some(id)) = &added {
                let id: &EntryId = id;
                client.run_detached(NOTIFY.with([key.clone()]).publish_arg().arg(channel(key)).arg(id.to_bytes()));
            }
            added
        };
        match added.map_err(|source| ObjectError::of(name, source)) {
            Ok(Some(id)) => Ok(id),
            Ok(None) => Err(ObjectError::Absent { name: name.clone() }.into()),
            Err(error) => match (id, StreamError::server_message(&error)) {
                (Some(id), Some(message)) if message.contains(ID_TOO_SMALL) => {
                    Err(StreamError::IdTooSmall { name: name.clone(), id })
                }
                _ => Err(error.into()),
            },
        }
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// As for [`Stream::add`].
    Add => Result<EntryId, StreamError>,
    |this| this.run()
);
