//! The commit request: its comparisons and writes, executed by an exactly-once script of
//! `redgrid-core`.

use bytes::Bytes;
use redgrid_codecs::element_hash;
use redgrid_core::name::suffixed;
use redgrid_core::{Client, IdempotentBulkScript, IdempotentRequest, Name, ServerError};

use crate::error::TransactionError;
use crate::state::{Element, Kind, MAX_ELEMENTS, ObjectState, State, Write};
use crate::transaction::Isolation;

static COMMIT: IdempotentBulkScript =
    IdempotentBulkScript::new("transaction/commit", include_str!("scripts/commit.lua"));

/// A commit request, and the objects and locks to which the numbers of the reply refer.
pub(crate) struct Commit {
    pub(crate) request: IdempotentRequest,
    objects: Vec<(Name, Kind)>,
    locks: Vec<(Name, Bytes)>,
}

/// The outcome of a commit.
pub(crate) enum Outcome {
    Done,
    /// The object with this name is locked by the lock with this key.
    Locked(Name, Bytes),
}

impl Commit {
    /// Creates the commit of a transaction; `None` if there is nothing to compare or to write.
    pub(crate) fn of(
        client: &Client,
        state: &State,
        isolation: Isolation,
        respect_locks: bool,
    ) -> Result<Option<Commit>, TransactionError> {
        let (mut checks, mut puts, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        let (mut keys, mut kinds, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        let mut locks = Vec::new();
        for (key, object) in &state.objects {
            let number = (objects.len() + 1).to_string();
            let args_before = checks.len() + puts.len() + removals.len();
            push_checks(&mut checks, &number, object, isolation);
            let writes_before = puts.len() + removals.len();
            push_writes(&mut checks, (&mut puts, &mut removals), &number, object);
            if puts.len() + removals.len() > writes_before && respect_locks {
                locks.extend(redisson_locks(client, key, object).map(|lock| (object.name.clone(), lock)));
            }
            if checks.len() + puts.len() + removals.len() > args_before {
                keys.push(key.clone());
                kinds.push(Bytes::from_static(object.kind.server_type().as_bytes()));
                objects.push((object.name.clone(), object.kind));
            }
        }
        if objects.is_empty() {
            return Ok(None);
        }
        keys.extend(locks.iter().map(|(_, lock)| lock.clone()));
        let request = COMMIT.with(keys).int(objects.len() as i64);
        let args = kinds.into_iter().chain(checks).chain(puts).chain(removals);
        let request = args.fold(request, IdempotentRequest::arg);
        Ok(Some(Commit { request, objects, locks }))
    }

    /// Parses the reply.
    pub(crate) fn parse_reply(&self, reply: Vec<String>) -> Result<Outcome, TransactionError> {
        let mut parts = reply.iter().map(String::as_str);
        let (status, number) = (parts.next(), parts.next().and_then(|number| number.parse::<usize>().ok()));
        let detail = parts.next();
        let object = number.and_then(|number| self.objects.get(number.checked_sub(1)?));
        let lock = number.and_then(|number| self.locks.get(number.checked_sub(1)?));
        match (status, object, lock, detail) {
            (Some("done"), ..) => Ok(Outcome::Done),
            (Some("locked"), _, Some((name, lock)), _) => Ok(Outcome::Locked(name.clone(), lock.clone())),
            (Some("changed"), Some((name, _)), ..) => Err(TransactionError::Conflict { name: name.clone() }),
            (Some("kind"), Some((name, kind)), _, Some(found)) => Err(TransactionError::WrongType {
                name: name.clone(),
                expected: kind.server_type(),
                found: format!("a {found}"),
            }),
            (Some("large"), _, _, Some(count)) => {
                Err(TransactionError::too_large("elements", MAX_ELEMENTS, count.parse().unwrap_or(usize::MAX)))
            }
            _ => Err(TransactionError::of_commit(ServerError::Decode {
                expected: "the result of a transaction",
                got: reply.join(" "),
            })),
        }
    }
}

/// Adds the comparisons of an object. They include the elements that were read and will be written
/// or, if the transaction is serializable, all elements that were read.
fn push_checks(checks: &mut Vec<Bytes>, number: &str, object: &ObjectState, isolation: Isolation) {
    let all = isolation == Isolation::Serializable;
    let is_checked = |element: &&Element| all || element.write.is_some() || object.cleared;
    for (name, element) in &object.elements {
        match Some(element).filter(is_checked).and_then(|element| element.read.as_ref()) {
            Some(Some(value)) => {
                checks.extend(["same".into(), Bytes::copy_from_slice(number.as_bytes()), name.clone(), value.clone()]);
            }
            Some(None) => checks.extend(["none".into(), Bytes::copy_from_slice(number.as_bytes()), name.clone()]),
            None => {}
        }
    }
    if let Some(len) = object.len.filter(|_| all || object.cleared) {
        checks.extend(["size".into(), Bytes::copy_from_slice(number.as_bytes()), len.to_string().into()]);
    }
}

/// Adds the writes of an object. For an object that is cleared, it also adds its size limit.
fn push_writes(
    checks: &mut Vec<Bytes>,
    (puts, removals): (&mut Vec<Bytes>, &mut Vec<Bytes>),
    number: &str,
    object: &ObjectState,
) {
    let number = || Bytes::copy_from_slice(number.as_bytes());
    let mut has_puts = false;
    for (name, element) in &object.elements {
        match (&element.write, object.kind) {
            (Some(Write::Put(value, options)), Kind::Bucket) => {
                puts.extend(["set".into(), number(), value.clone(), options.len().to_string().into()]);
                puts.extend(options.iter().cloned());
                has_puts = true;
            }
            (Some(Write::Put(value, _)), _) => {
                puts.extend(["put".into(), number(), name.clone(), value.clone()]);
                has_puts = true;
            }
            (Some(Write::Remove), Kind::Bucket) => removals.extend(["del".into(), number()]),
            (Some(Write::Remove), _) if !object.cleared => {
                removals.extend(["rem".into(), number(), name.clone()]);
            }
            _ => {}
        }
    }
    match (object.cleared, has_puts) {
        (true, true) => {
            checks.extend(["most".into(), number(), MAX_ELEMENTS.to_string().into()]);
            removals.extend(["rest".into(), number()]);
        }
        (true, false) => removals.extend(["del".into(), number()]),
        (false, _) => {}
    }
}

/// Returns the keys of the locks that a transaction of Redisson holds for the same writes: the lock
/// of the object, and the locks of its elements.
///
/// Locks in another slot are left out, because they cannot be checked in the same step.
fn redisson_locks(client: &Client, key: &Bytes, object: &ObjectState) -> impl Iterator<Item = Bytes> {
    let mut locks = vec![Bytes::from([key, &b":transaction_lock"[..]].concat())];
    if object.kind != Kind::Bucket {
        let written = object.elements.iter().filter(|(_, element)| element.write.is_some());
        // As in the names of the locks of a map's keys, the namespace is repeated before the key.
        let namespace = match client.namespace().as_str() {
            "" => String::new(),
            namespace => format!("{namespace}:"),
        };
        let lock = |(element, _): (&Bytes, &Element)| {
            let lock = suffixed(key, &format!("{}:lock", element_hash(element)));
            Bytes::from([namespace.as_bytes(), &lock].concat())
        };
        locks.extend(written.map(lock));
    }
    locks.into_iter().filter(|lock| client.slot(lock) == client.slot(key))
}
