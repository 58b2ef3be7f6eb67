//! Elements by their value, and all of them in their order.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use super::PriorityQueue;
use super::member::{OutOfOrder, unpacked};
use crate::elements::{Elements, PAGE};
use crate::ends::End;

static FIND: Script<1> = Script::new("queue/find", include_str!("../scripts/find.lua"));

/// How many elements one request looks at: about a millisecond of a server, of small ones.
const LOOKED_AT: i64 = 500;

/// 1 and the member, or 0 and the last that was looked at where there are more.
type Found = (u64, Option<Bytes>);

impl<T, C: Codec> PriorityQueue<T, C> {
    /// A part of a search, behind what was passed.
    fn find(&self, passed: Option<&Bytes>, element: &Bytes) -> Result<Request, ObjectError> {
        let from = passed.map_or(Bytes::from_static(FIRST), |passed| behind(passed));
        Ok(FIND.with([self.of.key()?]).arg(from).arg(element.clone()).int(LOOKED_AT))
    }

    /// The last that a search has passed now: it is told where it gets no further, or it would be without end.
    fn passed(&self, before: Option<Bytes>, last: Bytes) -> Result<Option<Bytes>, ObjectError> {
        if follows(End::Front, before.as_ref(), &last) { Ok(Some(last)) } else { Err(out_of_order(&self.of)?) }
    }
}

impl<T, C: Encode<T>> PriorityQueue<T, C> {
    /// Whether an element is this value. The server looks through the queue, at 500 elements a request: one that is there from beginning to end,
    /// with one priority, is found.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains(&self, value: &T) -> Result<bool, ObjectError> {
        let (element, mut passed) = (self.of.encoded(value)?, None);
        loop {
            let found: Found = self.of.place.read(self.find(passed.as_ref(), &element)?).await?;
            match found {
                (1, _) => return Ok(true),
                (_, Some(last)) => passed = self.passed(passed, last)?,
                (_, None) => return Ok(false),
            }
        }
    }

    /// Removes the first element that is this value, whatever its priority; tells whether there was one. The server looks through the queue, at 500
    /// elements a request; [`PriorityQueue::cancel`] needs none of that.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Until it is found nothing is changed. Then, what has left is carried out although nobody waits for it.
    #[doc(alias = "removeFirstOccurrence")]
    pub async fn remove(&self, value: &T) -> Result<bool, ObjectError> {
        let (element, mut passed) = (self.of.encoded(value)?, None);
        loop {
            let found: Found = self.of.place.read_primary(self.find(passed.as_ref(), &element)?).await?;
            passed = match found {
                (1, Some(found)) => {
                    let gone: u64 = self.of.place.change(self.of.place.command("ZREM")?.arg(found.clone())).await?;
                    if gone > 0 {
                        return Ok(true);
                    }
                    // Somebody was faster: the next, if there is one.
                    self.passed(passed, found)?
                }
                (0, Some(last)) => self.passed(passed, last)?,
                _ => return Ok(false),
            }
        }
    }
}

impl<T, C: Decode<T>> PriorityQueue<T, C> {
    /// An element with its priority.
    pub(super) fn one(&self, member: &Bytes) -> Result<(i64, T), ObjectError> {
        one(&self.of, member)
    }

    /// All elements with their priorities in one answer, in their order: as large as all of them. For large queues there is
    /// [`PriorityQueue::stream`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is an error of all.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAll")]
    #[doc(alias = "toArray")]
    pub async fn read_all(&self) -> Result<Vec<(i64, T)>, ObjectError> {
        let found: Vec<Bytes> = self.of.place.read(self.of.place.command("ZRANGE")?.int(0).int(-1)).await?;
        found.iter().map(|member| self.one(member)).collect()
    }
}

impl<T: Send + 'static, C: Decode<T>> PriorityQueue<T, C> {
    /// All elements with their priorities in their order, a page of 100 at a time. What is there from beginning to end, with one
    /// priority, comes once, whatever others add and take. One that can not be decoded is an error, and the stream goes on behind it; behind any other error it is over, also behind that
    /// of members which are out of order, as somebody else has given one a score.
    #[doc(alias = "iterator")]
    pub fn stream(&self) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
        streamed(self.of.clone(), End::Front)
    }

    /// The same from the last on.
    #[doc(alias = "descendingIterator")]
    #[doc(alias = "descendingStream")]
    pub fn stream_reversed(&self) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
        streamed(self.of.clone(), End::Back)
    }
}

/// In front of all members, for a range by bytes; and behind all.
const FIRST: &[u8] = b"-";
const LAST: &[u8] = b"+";

/// Not this member, but what comes next.
fn behind(member: &[u8]) -> Bytes {
    [b"(", member].concat().into()
}

/// Whether a member is behind what was passed, at either end.
fn follows(from: End, passed: Option<&Bytes>, member: &Bytes) -> bool {
    passed.is_none_or(|passed| from.of(member > passed, member < passed))
}

fn out_of_order<T, C: Codec>(of: &Elements<T, C>) -> Result<ObjectError, ObjectError> {
    Ok(ObjectError::decode(of.name()?, Some("an element".into()), of.codec.name(), OutOfOrder))
}

fn one<T, C: Decode<T>>(of: &Elements<T, C>, member: &Bytes) -> Result<(i64, T), ObjectError> {
    let (priority, element) = unpacked(member)
        .or_else(|none| Err(ObjectError::decode(of.name()?, Some("an element".into()), of.codec.name(), none)))?;
    Ok((priority, of.one(&element)?))
}

fn streamed<T: Send + 'static, C: Decode<T>>(
    of: Elements<T, C>,
    from: End,
) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
    let begin = (of, VecDeque::<Bytes>::new(), Some(Bytes::from_static(from.of(FIRST, LAST))), None);
    let all = stream::unfold(begin, move |(of, mut found, mut next, passed)| async move {
        loop {
            if let Some(member) = found.pop_front() {
                if !follows(from, passed.as_ref(), &member) {
                    // It would come again and again.
                    let told = out_of_order(&of).and_then(Err);
                    return Some((told, (of, VecDeque::new(), None, None)));
                }
                return Some((one(&of, &member), (of, found, next, Some(member))));
            }
            match page(&of, from, next.take()?).await {
                Ok(page) => {
                    next = page.last().filter(|_| page.len() == PAGE).map(|last| behind(last));
                    found.extend(page);
                }
                Err(error) => return Some((Err(error), (of, found, None, None))),
            }
        }
    });
    all.boxed()
}

async fn page<T, C: Codec>(of: &Elements<T, C>, from: End, at: Bytes) -> Result<Vec<Bytes>, ObjectError> {
    let request = of.place.command("ZRANGE")?.arg(at).arg(Bytes::from_static(from.of(LAST, FIRST))).arg("BYLEX");
    let request = if from == End::Back { request.arg("REV") } else { request };
    of.place.read(request.arg("LIMIT").int(0).arg(PAGE.to_string())).await
}
