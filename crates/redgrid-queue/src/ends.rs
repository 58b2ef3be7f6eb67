//! The two ends of a list, and the requests of queues that are lists.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::object::{ObjectError, ObjectRef, chunks};
use redgrid_core::{IdempotentRequest, IdempotentScript, Request, Script};

use crate::elements::{Elements, MAX_POPPED, PAGE, channel};
use crate::select::NamedQueue;
use crate::stock::{MAX_TAKEN_BYTES, TakeSource};
use crate::waiters::TakeWaiters;

static PUSH: Script<1> = Script::new("queue/push", include_str!("scripts/push.lua"));
static MOVE: Script<2> = Script::new("queue/move", include_str!("scripts/move.lua"));
pub(crate) static TAKE: IdempotentScript<1> = IdempotentScript::new("queue/take", include_str!("scripts/take.lua"));
static PUT_BACK: IdempotentScript<2> = IdempotentScript::new("queue/put_back", include_str!("scripts/put_back.lua"));

/// An end of a deque.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Not `#[non_exhaustive]`: a deque has two ends.
pub enum End {
    /// The end from which a queue is taken.
    Front,
    /// The end to which a queue adds.
    Back,
}

impl End {
    /// Returns the value for this end.
    pub(crate) fn of<A>(self, front: A, back: A) -> A {
        match self {
            End::Front => front,
            End::Back => back,
        }
    }

    /// Returns the id of this end of a key among the sources of its type.
    pub(crate) fn source_id(self, key: &[u8]) -> Bytes {
        [self.of(&b"<"[..], b">"), key].concat().into()
    }
}

/// An end of a list, from which waiters take.
pub(crate) struct ListEnd {
    key: Bytes,
    end: End,
}

impl TakeSource for ListEnd {
    fn key(&self) -> &Bytes {
        &self.key
    }

    fn channels(&self) -> Vec<Bytes> {
        vec![channel(&self.key)]
    }

    fn take(&self, limit: usize) -> IdempotentRequest {
        let [pop, push] = self.end.of(["LPOP", "LPUSH"], ["RPOP", "RPUSH"]);
        TAKE.with([self.key.clone()]).arg(pop).arg(push).arg(limit.to_string()).int(MAX_TAKEN_BYTES)
    }

    fn put_back(&self, unique: Bytes, elements: &[Bytes]) -> IdempotentRequest {
        put_back(unique, &self.key, self.end, elements)
    }
}

/// Returns the request that puts taken elements back at an end of a list.
pub(crate) fn put_back(unique: Bytes, key: &Bytes, end: End, elements: &[Bytes]) -> IdempotentRequest {
    let request = PUT_BACK.with([unique, key.clone()]).arg(end.of("LPUSH", "RPUSH"));
    let request = request.publish_arg().arg(channel(key));
    // The element that was taken first must be nearest to the end, so it is pushed last.
    elements.iter().rev().cloned().fold(request, IdempotentRequest::arg)
}

/// Returns the name of a list, and the queue of all callers that wait at one of its ends.
pub(crate) fn take_queue(place: &ObjectRef, end: End) -> Result<NamedQueue<ListEnd>, ObjectError> {
    let (name, key) = place.name_and_key()?;
    let queue = TakeWaiters::of(place.client(), &end.source_id(key), || ListEnd { key: key.clone(), end });
    Ok((name.clone(), queue))
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) async fn len(&self) -> Result<u64, ObjectError> {
        self.place.read(self.place.command("LLEN")?).await
    }

    pub(crate) async fn clear(&self) -> Result<bool, ObjectError> {
        self.place.change(self.place.command("DEL")?).await
    }

    /// Returns a number of elements as an argument of a command.
    pub(crate) fn count(&self, option: &'static str, n: u64) -> Result<i64, ObjectError> {
        i64::try_from(n).map_err(|_| self.place.invalid(option, format_args!("up to {}", i64::MAX), n))
    }
}

impl<T, C: Codec> Elements<T, C> {
    /// Pushes in parts of 500 elements or 4 MiB, and returns the length of the list.
    pub(crate) async fn push<'a, Q: ?Sized + 'a>(
        &self,
        end: End,
        only_if_exists: bool,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, key) = self.place.name_and_key()?;
        let values = self.encode_all(values)?;
        let command = if only_if_exists { end.of("LPUSHX", "RPUSHX") } else { end.of("LPUSH", "RPUSH") };
        let (mut length, mut pushed) = (None, 0);
        for part in chunks(&values, Bytes::len) {
            let request = PUSH.with([key.clone()]).arg(command).publish_arg().arg(channel(key));
            let request = part.iter().cloned().fold(request, Request::arg);
            length = Some(self.place.change(request).await.map_err(|error| error.after(name, pushed))?);
            pushed += part.len() as u64;
        }
        match length {
            Some(length) => Ok(length),
            None => self.place.read_primary(self.place.command("LLEN")?).await,
        }
    }

    pub(crate) async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let index: Option<u64> = self.place.read(self.place.command("LPOS")?.arg(self.encode(value)?)).await?;
        Ok(index.is_some())
    }

    /// Removes the element with this value that is nearest to an end.
    pub(crate) async fn remove<Q: ?Sized>(&self, end: End, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let value = self.encode(value)?;
        self.place.change(self.place.command("LREM")?.int(end.of(1, -1)).arg(value)).await
    }
}

impl<T, C: Decode<T>> Elements<T, C> {
    pub(crate) async fn pop(&self, end: End) -> Result<Option<T>, ObjectError> {
        self.decode_optional(self.place.change(self.place.command(end.of("LPOP", "RPOP"))?).await?)
    }

    pub(crate) async fn pop_many(&self, end: End, most: u64) -> Result<Vec<T>, ObjectError> {
        let name = self.name()?;
        self.count("most", most)?;
        let mut all: Vec<T> = Vec::new();
        loop {
            let limit = (most - all.len() as u64).min(MAX_POPPED);
            if limit == 0 {
                return Ok(all);
            }
            let request = self.place.command(end.of("LPOP", "RPOP"))?.int(limit.cast_signed());
            let popped: Option<Vec<Bytes>> =
                self.place.change(request).await.map_err(|error| error.after(name, all.len() as u64))?;
            let popped = popped.unwrap_or_default();
            all.extend(self.decode_all(&popped)?);
            if (popped.len() as u64) < limit {
                return Ok(all);
            }
        }
    }

    pub(crate) async fn peek(&self, end: End) -> Result<Option<T>, ObjectError> {
        self.decode_optional(self.place.read(self.place.command("LINDEX")?.int(end.of(0, -1))).await?)
    }

    pub(crate) async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        let all: Vec<Bytes> = self.place.read(self.place.command("LRANGE")?.int(0).int(-1)).await?;
        self.decode_all(&all)
    }

    pub(crate) async fn move_element(&self, from: End, to: &str, to_end: End) -> Result<Option<T>, ObjectError> {
        let (key, to) = (self.key()?, self.place.same_slot_key("to", to)?);
        let request = MOVE.with([key, to.clone()]).arg(from.of("LEFT", "RIGHT")).arg(to_end.of("LEFT", "RIGHT"));
        self.decode_optional(self.place.change(request.publish_arg().arg(channel(&to))).await?)
    }
}

impl<T: Send + 'static, C: Decode<T>> Elements<T, C> {
    /// Returns a stream over the elements from the front on, read in pages.
    pub(crate) fn stream(&self) -> BoxStream<'static, Result<T, ObjectError>> {
        let pages = stream::try_unfold((self.clone(), Some(0_usize)), |(elements, from)| async move {
            let Some(from) = from else { return Ok(None) };
            let range = elements.place.command("LRANGE")?.arg(from.to_string()).arg((from + PAGE - 1).to_string());
            let page: Vec<Bytes> = elements.place.read(range).await?;
            let next = (page.len() == PAGE).then_some(from + PAGE);
            let page: Vec<Result<T, ObjectError>> = page.iter().map(|bytes| elements.decode(bytes)).collect();
            Ok::<_, ObjectError>(Some((page, (elements, next))))
        });
        let each = |page: Result<Vec<_>, _>| stream::iter(page.unwrap_or_else(|error| vec![Err(error)]));
        pages.flat_map(each).boxed()
    }
}
