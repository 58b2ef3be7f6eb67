//! Multimaps by their names: the values of their keys are in keys that only the hash names.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::name::suffixed;
use redgrid_core::object::ObjectError;
use redgrid_core::object::belongings::is_hash;
use redgrid_core::object::layouts::{LIST_MULTIMAP_ENDS, SET_MULTIMAP_ENDS};
use redgrid_core::{BulkScript, Client, Code, Name, Request, ServerError};
use redgrid_multimap::codecs::Raw;
use redgrid_multimap::{Expiring, Lists, Multimap, MultimapObject, Native, Sets};

static REMOVE_VALUES: BulkScript = BulkScript::new("keys/remove_values", include_str!("scripts/remove_values.lua"));

/// How many keys of a multimap one request reads or deletes.
const PAGE: &str = "100";

/// How many values of a hash are looked at, at most, to tell a multimap from a map.
const SAMPLE: usize = 10;

/// What kind of multimap a name has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its values are lists, and otherwise sets.
    lists: bool,
    /// Its keys have lifetimes in a sorted set.
    ends: bool,
}

/// Calls the same method of the object that a multimap is, whatever its kind.
macro_rules! of_kind {
    ($found:expr, $client:expr, $name:expr, |$object:ident| $call:expr) => {{
        let (client, name) = ($client, $name);
        match ($found.lists, $found.ends) {
            (false, true) => {
                let $object: MultimapObject<Expiring<Sets>> =
                    Multimap::<Bytes, Bytes, Raw, Raw, _>::new(client, name).object();
                $call
            }
            (true, true) => {
                let $object: MultimapObject<Expiring<Lists>> =
                    Multimap::<Bytes, Bytes, Raw, Raw, _>::new(client, name).object();
                $call
            }
            // A plain multimap is a native one whose keys have no lifetimes.
            (false, false) => {
                let $object: MultimapObject<Native<Sets>> =
                    Multimap::<Bytes, Bytes, Raw, Raw, _>::new(client, name).object();
                $call
            }
            (true, false) => {
                let $object: MultimapObject<Native<Lists>> =
                    Multimap::<Bytes, Bytes, Raw, Raw, _>::new(client, name).object();
                $call
            }
        }
    }};
}

/// Whether the key is a multimap: a hash with a value that is the hash of a key, and a set or a list of that name.
pub(crate) async fn look(client: &Client, object: &Bytes) -> Result<Option<Found>, ServerError> {
    let request = Request::command("HSCAN").key(object.clone()).arg("0").arg("COUNT").arg("10");
    let page: Result<(Bytes, Vec<Bytes>), _> = client.run(request.idempotent()).await;
    let page = match page {
        Ok((_, page)) => page,
        Err(error) if error.code() == Some(Code::WrongType) => return Ok(None),
        Err(error) => return Err(error),
    };
    for hash in page.into_iter().skip(1).step_by(2).filter(|value| is_hash(value)).take(SAMPLE) {
        let request = Request::command("TYPE").key(values_of(object, &hash)).idempotent();
        let lists = match &*client.run::<Bytes>(request).await? {
            b"set" => false,
            b"list" => true,
            _ => continue,
        };
        let ends = suffixed(object, if lists { LIST_MULTIMAP_ENDS } else { SET_MULTIMAP_ENDS });
        let ends: bool = client.run(Request::command("EXISTS").key(ends).idempotent()).await?;
        return Ok(Some(Found { lists, ends }));
    }
    Ok(None)
}

/// Deletes all keys of a multimap with their values, by pages; its hash goes with the last key.
pub(crate) async fn remove(client: &Client, object: &Bytes) -> Result<(), ServerError> {
    let mut cursor = Bytes::from_static(b"0");
    loop {
        let request = Request::command("HSCAN").key(object.clone()).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, page): (Bytes, Vec<Bytes>) = client.run(request.idempotent()).await?;
        for part in page.chunks(2 * 500) {
            let pairs = part.chunks_exact(2).filter(|pair| is_hash(&pair[1]));
            let keys = pairs.clone().map(|pair| values_of(object, &pair[1]));
            let request = REMOVE_VALUES.with([object.clone()].into_iter().chain(keys));
            let request = pairs.fold(request, |request, pair| request.arg(pair[0].clone()));
            client.run::<u64>(request).await?;
        }
        if &next[..] == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

impl Found {
    /// Gives it an end of life, or none: PEXPIRE, PEXPIREAT or PERSIST and its milliseconds.
    pub(crate) async fn live(
        self,
        client: &Client,
        name: &Name,
        command: &str,
        millis: Option<&Bytes>,
    ) -> Result<bool, ObjectError> {
        let millis = millis.and_then(|millis| std::str::from_utf8(millis).ok()?.parse().ok()).unwrap_or(0);
        let time = Duration::from_millis(millis);
        of_kind!(self, client, name, |object| match command {
            "PEXPIRE" => object.expire_in(time).await,
            "PEXPIREAT" => object.expire_at(SystemTime::UNIX_EPOCH + time).await,
            _ => object.persist().await,
        })
    }

    pub(crate) async fn rename(
        self,
        client: &Client,
        name: &Name,
        to: &str,
        replaces: bool,
    ) -> Result<bool, ObjectError> {
        of_kind!(self, client, name, |object| match replaces {
            true => object.rename(to).await,
            false => object.rename(to).unless_taken().await,
        })
    }

    pub(crate) async fn copy(self, client: &Client, name: &Name, to: &str) -> Result<bool, ObjectError> {
        of_kind!(self, client, name, |object| object.copy_to(to).await)
    }
}

/// What became of a request about one object, where many are dealt with.
pub(crate) fn server_error(error: ObjectError) -> ServerError {
    match error {
        ObjectError::Unavailable { source, .. }
        | ObjectError::Refused { source, .. }
        | ObjectError::OutcomeUnknown { source, .. }
        | ObjectError::Unexpected { source, .. }
        | ObjectError::Unsupported { source, .. } => source,
        // Too many keys, or others change it each time: nothing is changed.
        other => ServerError::NotSent { reason: other.to_string().into() },
    }
}

/// The key of the values that this hash names.
fn values_of(object: &[u8], hash: &[u8]) -> Bytes {
    [&suffixed(object, "")[..], hash].concat().into()
}
