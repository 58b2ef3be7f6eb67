//! The request that commits: what is compared and what is written, by core's scripts that act once.

use bytes::Bytes;
use redgrid_codecs::element_hash;
use redgrid_core::name::suffixed;
use redgrid_core::{Client, IdempotentBulkScript, IdempotentRequest, Name, ServerError};

use crate::error::TransactionError;
use crate::state::{Element, Kind, MAX_ELEMENTS, State, Touched, Write};
use crate::transaction::Isolation;

static COMMIT: IdempotentBulkScript =
    IdempotentBulkScript::new("transaction/commit", include_str!("scripts/commit.lua"));

/// What is asked for, and of which objects the answer's numbers are.
pub(crate) struct Commit {
    pub(crate) request: IdempotentRequest,
    objects: Vec<(Name, Kind)>,
    locks: Vec<(Name, Bytes)>,
}

/// What became of it.
pub(crate) enum Outcome {
    Done,
    /// A lock is in the way of this object; it has this key.
    Locked(Name, Bytes),
}

impl Commit {
    /// Of what a transaction has read and writes; nothing where nothing is to be compared or written.
    pub(crate) fn of(
        client: &Client,
        state: &State,
        isolation: Isolation,
        locks: bool,
    ) -> Result<Option<Commit>, TransactionError> {
        let (mut looks, mut puts, mut removals) = (Vec::new(), Vec::new(), Vec::new());
        let (mut keys, mut kinds, mut objects) = (Vec::new(), Vec::new(), Vec::new());
        let mut locked = Vec::new();
        for (key, touched) in &state.objects {
            let number = (objects.len() + 1).to_string();
            let before = looks.len() + puts.len() + removals.len();
            look(&mut looks, &number, touched, isolation);
            let writes = puts.len() + removals.len();
            write(&mut looks, (&mut puts, &mut removals), &number, touched);
            if puts.len() + removals.len() > writes && locks {
                locked.extend(locks_of(client, key, touched).map(|lock| (touched.name.clone(), lock)));
            }
            if looks.len() + puts.len() + removals.len() > before {
                keys.push(key.clone());
                kinds.push(Bytes::from_static(touched.kind.as_type().as_bytes()));
                objects.push((touched.name.clone(), touched.kind));
            }
        }
        if objects.is_empty() {
            return Ok(None);
        }
        keys.extend(locked.iter().map(|(_, lock)| lock.clone()));
        let request = COMMIT.with(keys).int(objects.len() as i64);
        let args = kinds.into_iter().chain(looks).chain(puts).chain(removals);
        let request = args.fold(request, IdempotentRequest::arg);
        Ok(Some(Commit { request, objects, locks: locked }))
    }

    /// What the server's answer says.
    pub(crate) fn outcome(&self, answer: Vec<String>) -> Result<Outcome, TransactionError> {
        let mut words = answer.iter().map(String::as_str);
        let (said, number) = (words.next(), words.next().and_then(|number| number.parse::<usize>().ok()));
        let more = words.next();
        let object = number.and_then(|number| self.objects.get(number.checked_sub(1)?));
        let lock = number.and_then(|number| self.locks.get(number.checked_sub(1)?));
        match (said, object, lock, more) {
            (Some("done"), ..) => Ok(Outcome::Done),
            (Some("locked"), _, Some((name, lock)), _) => Ok(Outcome::Locked(name.clone(), lock.clone())),
            (Some("changed"), Some((name, _)), ..) => Err(TransactionError::Conflict { name: name.clone() }),
            (Some("kind"), Some((name, kind)), _, Some(found)) => Err(TransactionError::WrongType {
                name: name.clone(),
                expected: kind.as_type(),
                found: format!("a {found}"),
            }),
            (Some("large"), _, _, Some(count)) => {
                Err(TransactionError::too_large("elements", MAX_ELEMENTS, count.parse().unwrap_or(usize::MAX)))
            }
            _ => Err(TransactionError::OutcomeUnknown(ServerError::Decode {
                expected: "what became of a transaction",
                got: answer.join(" "),
            })),
        }
    }
}

/// What is compared: what is written and was read before; of all that is isolated, what was read.
fn look(looks: &mut Vec<Bytes>, number: &str, touched: &Touched, isolation: Isolation) {
    let all = isolation == Isolation::Serializable;
    let is_looked_at = |element: &&Element| all || element.write.is_some() || touched.cleared;
    for (name, element) in &touched.elements {
        match Some(element).filter(is_looked_at).and_then(|element| element.seen.as_ref()) {
            Some(Some(value)) => {
                looks.extend(["same".into(), Bytes::copy_from_slice(number.as_bytes()), name.clone(), value.clone()]);
            }
            Some(None) => looks.extend(["none".into(), Bytes::copy_from_slice(number.as_bytes()), name.clone()]),
            None => {}
        }
    }
    if let Some(len) = touched.len.filter(|_| all || touched.cleared) {
        looks.extend(["size".into(), Bytes::copy_from_slice(number.as_bytes()), len.to_string().into()]);
    }
}

/// What is written.
fn write(
    looks: &mut Vec<Bytes>,
    (puts, removals): (&mut Vec<Bytes>, &mut Vec<Bytes>),
    number: &str,
    touched: &Touched,
) {
    let number = || Bytes::copy_from_slice(number.as_bytes());
    let mut any = false;
    for (name, element) in &touched.elements {
        match (&element.write, touched.kind) {
            (Some(Write::Put(value, options)), Kind::Bucket) => {
                puts.extend(["set".into(), number(), value.clone(), options.len().to_string().into()]);
                puts.extend(options.iter().cloned());
                any = true;
            }
            (Some(Write::Put(value, _)), _) => {
                puts.extend(["put".into(), number(), name.clone(), value.clone()]);
                any = true;
            }
            (Some(Write::Remove), Kind::Bucket) => removals.extend(["del".into(), number()]),
            (Some(Write::Remove), _) if !touched.cleared => {
                removals.extend(["rem".into(), number(), name.clone()]);
            }
            _ => {}
        }
    }
    match (touched.cleared, any) {
        (true, true) => {
            looks.extend(["most".into(), number(), MAX_ELEMENTS.to_string().into()]);
            removals.extend(["rest".into(), number()]);
        }
        (true, false) => removals.extend(["del".into(), number()]),
        (false, _) => {}
    }
}

/// The locks that a transaction of Redisson's has of what is written: of the object, and of each element. What is in another slot can not be
/// looked at in the same step.
fn locks_of(client: &Client, key: &Bytes, touched: &Touched) -> impl Iterator<Item = Bytes> {
    let mut locks = vec![Bytes::from([key, &b":transaction_lock"[..]].concat())];
    if touched.kind != Kind::Bucket {
        let written = touched.elements.iter().filter(|(_, element)| element.write.is_some());
        // Of the key, as with the locks of a map's keys: the namespace comes in front of it once more.
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
