//! Search for elements by their value, and streams over all elements in their order.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use super::PriorityQueue;
use super::member::{OutOfOrder, unpack};
use crate::elements::{Elements, PAGE};
use crate::ends::End;

static FIND: Script<1> = Script::new("queue/find", include_str!("../scripts/find.lua"));

/// Number of elements that one request compares. For small elements this takes about a millisecond.
const MAX_COMPARED: i64 = 500;

/// 1 and the found member; or 0 and the last compared member, which is absent if there are no more
/// members.
type Found = (u64, Option<Bytes>);

impl<T, C: Codec> PriorityQueue<T, C> {
    /// Returns the request for one step of a search, after the members that were compared.
    fn find(&self, compared: Option<&Bytes>, element: &Bytes) -> Result<Request, ObjectError> {
        let from = compared.map_or(Bytes::from_static(FIRST), |compared| after(compared));
        Ok(FIND.with([self.elements.key()?]).arg(from).arg(element.clone()).int(MAX_COMPARED))
    }

    /// Returns the last member that was compared. Fails if the search makes no progress: otherwise
    /// the search would not end.
    fn compared(&self, before: Option<Bytes>, last: Bytes) -> Result<Option<Bytes>, ObjectError> {
        if follows(End::Front, before.as_ref(), &last) { Ok(Some(last)) } else { Err(out_of_order(&self.elements)?) }
    }
}

impl<T, C: Codec> PriorityQueue<T, C> {
    /// Returns whether an element has this value.
    ///
    /// The server searches the queue, 500 elements a request. An element that stays in the queue
    /// during the whole search, with one priority, is found.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (element, mut compared) = (self.elements.encode(value)?, None);
        loop {
            let found: Found = self.elements.place.read(self.find(compared.as_ref(), &element)?).await?;
            match found {
                (1, _) => return Ok(true),
                (_, Some(last)) => compared = self.compared(compared, last)?,
                (_, None) => return Ok(false),
            }
        }
    }

    /// Removes the first element with this value, whatever its priority, and returns whether there
    /// was one.
    ///
    /// The server searches the queue, 500 elements a request. [`PriorityQueue::cancel`] does not
    /// search.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// The search changes nothing. After it, a request that was already sent is executed even if
    /// the future is dropped.
    #[doc(alias = "removeFirstOccurrence")]
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (element, mut compared) = (self.elements.encode(value)?, None);
        let place = &self.elements.place;
        loop {
            let found: Found = place.read_primary(self.find(compared.as_ref(), &element)?).await?;
            compared = match found {
                (1, Some(found)) => {
                    let removed: u64 = place.change(place.command("ZREM")?.arg(found.clone())).await?;
                    if removed > 0 {
                        return Ok(true);
                    }
                    // Another process has removed this member: continue the search after it.
                    self.compared(compared, found)?
                }
                (0, Some(last)) => self.compared(compared, last)?,
                _ => return Ok(false),
            }
        }
    }
}

impl<T, C: Decode<T>> PriorityQueue<T, C> {
    /// Returns the priority and the element of a member.
    pub(super) fn decode(&self, member: &Bytes) -> Result<(i64, T), ObjectError> {
        decode(&self.elements, member)
    }

    /// Returns all elements with their priorities, in their order and in one reply.
    /// [`PriorityQueue::stream`] is for large queues.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. If one element
    /// cannot be decoded, the call fails.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAll")]
    #[doc(alias = "toArray")]
    pub async fn read_all(&self) -> Result<Vec<(i64, T)>, ObjectError> {
        let place = &self.elements.place;
        let members: Vec<Bytes> = place.read(place.command("ZRANGE")?.int(0).int(-1)).await?;
        members.iter().map(|member| self.decode(member)).collect()
    }
}

impl<T: Send + 'static, C: Decode<T>> PriorityQueue<T, C> {
    /// Returns a stream over all elements with their priorities, in their order, read in pages of
    /// 100.
    ///
    /// An element that stays in the queue during the whole stream, with one priority, is returned
    /// once. If an element cannot be decoded, the stream returns an error and continues. It ends
    /// after any other error, for example if another program has set a score, so that members are
    /// out of order.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
        stream_from(self.elements.clone(), End::Front)
    }

    /// Returns a stream over all elements as [`PriorityQueue::stream`], from the last to the first.
    #[doc(alias = "descendingIterator")]
    #[doc(alias = "descendingStream")]
    pub fn stream_reversed(&self) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
        stream_from(self.elements.clone(), End::Back)
    }
}

/// The ends of a range by bytes: before all members, and after all.
const FIRST: &[u8] = b"-";
const LAST: &[u8] = b"+";

/// Returns the start of a range after a member.
fn after(member: &[u8]) -> Bytes {
    [b"(", member].concat().into()
}

/// Returns whether a member comes after the previous one, read from an end.
fn follows(from: End, previous: Option<&Bytes>, member: &Bytes) -> bool {
    previous.is_none_or(|previous| from.of(member > previous, member < previous))
}

fn out_of_order<T, C: Codec>(elements: &Elements<T, C>) -> Result<ObjectError, ObjectError> {
    Ok(ObjectError::decode(elements.name()?, Some("an element".into()), elements.codec.name(), OutOfOrder))
}

fn decode<T, C: Decode<T>>(elements: &Elements<T, C>, member: &Bytes) -> Result<(i64, T), ObjectError> {
    let (priority, element) = unpack(member).or_else(|invalid| {
        Err(ObjectError::decode(elements.name()?, Some("an element".into()), elements.codec.name(), invalid))
    })?;
    Ok((priority, elements.decode(&element)?))
}

fn stream_from<T: Send + 'static, C: Decode<T>>(
    elements: Elements<T, C>,
    from: End,
) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
    let start = (elements, VecDeque::<Bytes>::new(), Some(Bytes::from_static(from.of(FIRST, LAST))), None);
    let all = stream::unfold(start, move |(elements, mut page, mut next, previous)| async move {
        loop {
            if let Some(member) = page.pop_front() {
                if !follows(from, previous.as_ref(), &member) {
                    // End here: with members out of order, the stream might never end.
                    let error = out_of_order(&elements).and_then(Err);
                    return Some((error, (elements, VecDeque::new(), None, None)));
                }
                return Some((decode(&elements, &member), (elements, page, next, Some(member))));
            }
            match read_page(&elements, from, next.take()?).await {
                Ok(members) => {
                    next = members.last().filter(|_| members.len() == PAGE).map(|last| after(last));
                    page.extend(members);
                }
                Err(error) => return Some((Err(error), (elements, page, None, None))),
            }
        }
    });
    all.boxed()
}

async fn read_page<T, C: Codec>(elements: &Elements<T, C>, from: End, start: Bytes) -> Result<Vec<Bytes>, ObjectError> {
    let request = elements.place.command("ZRANGE")?.arg(start).arg(Bytes::from_static(from.of(LAST, FIRST)));
    let request = request.arg("BYLEX");
    let request = if from == End::Back { request.arg("REV") } else { request };
    elements.place.read(request.arg("LIMIT").int(0).arg(PAGE.to_string())).await
}
