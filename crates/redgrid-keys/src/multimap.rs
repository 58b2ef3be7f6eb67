//! Multimaps that are found by name. Only the hash refers to the keys that store their values.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::name::suffixed;
use redgrid_core::object::ObjectError;
use redgrid_core::object::key_ownership::is_hash;
use redgrid_core::object::layouts::{LIST_MULTIMAP_ENDS, SET_MULTIMAP_ENDS};
use redgrid_core::{BulkScript, Client, Code, Failure, Name, Request, ServerError};
use redgrid_multimap::codecs::Raw;
use redgrid_multimap::{Expiring, Lists, Multimap, MultimapObject, Native, Sets};

use crate::bulk::partially_done;

static REMOVE_VALUES: BulkScript = BulkScript::new("keys/remove_values", include_str!("scripts/remove_values.lua"));

/// The approximate number of keys of a multimap that one request reads.
const PAGE: &str = "100";

/// The maximum number of values of a hash that are checked to distinguish a multimap from a map.
const SAMPLE: usize = 10;

/// The kind of a multimap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MultimapKind {
    /// Whether the values of a key are a list; otherwise they are a set.
    lists: bool,
    /// Whether the expiry times of the keys are in a sorted set.
    has_expiry: bool,
}

/// Calls a method of the object of a multimap of any kind.
macro_rules! with_object {
    ($kind:expr, $client:expr, $name:expr, |$object:ident| $call:expr) => {{
        let (client, name) = ($client, $name);
        match ($kind.lists, $kind.has_expiry) {
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
            // A plain multimap is a native multimap without TTLs.
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

/// Returns the kind of the multimap with this key; `None` if it is not one.
///
/// A multimap is a hash in which a value is the hash of a key, and a set or a list is named after
/// that value.
pub(crate) async fn detect(client: &Client, object: &Bytes) -> Result<Option<MultimapKind>, ServerError> {
    let request = Request::command("HSCAN").key(object.clone()).arg("0").arg("COUNT").arg("10");
    let page: Result<(Bytes, Vec<Bytes>), _> = client.run(request.idempotent()).await;
    let page = match page {
        Ok((_, page)) => page,
        Err(error) if error.code() == Some(Code::WrongType) => return Ok(None),
        Err(error) => return Err(error),
    };
    for hash in page.into_iter().skip(1).step_by(2).filter(|value| is_hash(value)).take(SAMPLE) {
        let request = Request::command("TYPE").key(values_key(object, &hash)).idempotent();
        let lists = match &*client.run::<Bytes>(request).await? {
            b"set" => false,
            b"list" => true,
            _ => continue,
        };
        let expiry_key = suffixed(object, if lists { LIST_MULTIMAP_ENDS } else { SET_MULTIMAP_ENDS });
        let has_expiry: bool = client.run(Request::command("EXISTS").key(expiry_key).idempotent()).await?;
        return Ok(Some(MultimapKind { lists, has_expiry }));
    }
    Ok(None)
}

/// Deletes all keys of a multimap with their values, page by page. The server deletes the hash with
/// its last field.
///
/// After an error that states that nothing was changed, no page was deleted.
pub(crate) async fn remove(client: &Client, object: &Bytes) -> Result<(), ServerError> {
    let mut has_removed = false;
    let removed = remove_pages(client, object, &mut has_removed).await;
    removed.map_err(|error| if has_removed { partially_done(error) } else { error })
}

/// Deletes the pages. Sets `has_removed` as soon as one is deleted.
async fn remove_pages(client: &Client, object: &Bytes, has_removed: &mut bool) -> Result<(), ServerError> {
    let mut cursor = Bytes::from_static(b"0");
    loop {
        let request = Request::command("HSCAN").key(object.clone()).arg(cursor).arg("COUNT").arg(PAGE);
        let (next, page): (Bytes, Vec<Bytes>) = client.run(request.idempotent()).await?;
        for part in page.chunks(2 * 500) {
            let pairs = part.chunks_exact(2).filter(|pair| is_hash(&pair[1]));
            let keys = pairs.clone().map(|pair| values_key(object, &pair[1]));
            let request = REMOVE_VALUES.with([object.clone()].into_iter().chain(keys));
            let request = pairs.fold(request, |request, pair| request.arg(pair[0].clone()));
            let count: u64 = client.run(request).await?;
            *has_removed |= count > 0;
        }
        if &next[..] == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

impl MultimapKind {
    /// Sets or removes the TTL of a multimap. The command is PEXPIRE, PEXPIREAT or PERSIST;
    /// `millis` is its argument.
    pub(crate) async fn expire(
        self,
        client: &Client,
        name: &Name,
        command: &str,
        millis: Option<&Bytes>,
    ) -> Result<bool, ObjectError> {
        let millis = millis.and_then(|millis| std::str::from_utf8(millis).ok()?.parse().ok()).unwrap_or(0);
        let time = Duration::from_millis(millis);
        with_object!(self, client, name, |object| match command {
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
        with_object!(self, client, name, |object| if replaces {
            object.rename(to).await
        } else {
            object.rename(to).unless_taken().await
        })
    }

    pub(crate) async fn copy(self, client: &Client, name: &Name, to: &str) -> Result<bool, ObjectError> {
        with_object!(self, client, name, |object| object.copy_to(to).await)
    }
}

/// Converts the error of one object to an error in the outcomes of a bulk operation.
pub(crate) fn server_error(error: ObjectError) -> ServerError {
    match error {
        ObjectError::Failed(
            Failure::Unavailable { source, .. }
            | Failure::Refused { source, .. }
            | Failure::OutcomeUnknown { source, .. },
        )
        | ObjectError::Unexpected { source, .. }
        | ObjectError::Unsupported { source, .. } => source,
        // There were too many keys, or concurrent changes at each attempt: nothing has changed.
        other => ServerError::NotSent { reason: other.to_string().into() },
    }
}

/// Returns the key of the values to which a hash in the multimap refers.
fn values_key(object: &[u8], hash: &[u8]) -> Bytes {
    [&suffixed(object, "")[..], hash].concat().into()
}
