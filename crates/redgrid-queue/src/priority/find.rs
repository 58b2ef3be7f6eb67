//! Elements by their value, and all of them in their order.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use super::PriorityQueue;
use super::member::unpacked;
use crate::elements::{Elements, PAGE};
use crate::ends::End;

static FIND: Script<1> = Script::new("queue/find", include_str!("../scripts/find.lua"));

/// How many elements one request looks at: about a millisecond of a server, of small ones.
const LOOKED_AT: i64 = 500;

/// 1 and the member, or 0 and the last that was looked at where there are more.
type Found = (u64, Option<Bytes>);

impl<T, C: Codec> PriorityQueue<T, C> {
    /// A part of a search, from there on.
    fn find(&self, from: &Bytes, element: &Bytes) -> Result<Request, ObjectError> {
        Ok(FIND.with([self.of.key()?]).arg(from.clone()).arg(element.clone()).int(LOOKED_AT))
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
        let (element, mut from) = (self.of.encoded(value)?, Bytes::from_static(FIRST));
        loop {
            let found: Found = self.of.place.read(self.find(&from, &element)?).await?;
            match found {
                (1, _) => return Ok(true),
                (_, Some(last)) => from = behind(&last),
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
        let (element, mut from) = (self.of.encoded(value)?, Bytes::from_static(FIRST));
        loop {
            let found: Found = self.of.place.ask(self.find(&from, &element)?).await?;
            from = match found {
                (1, Some(found)) => {
                    let gone: u64 = self.of.place.change(self.of.place.command("ZREM")?.arg(found.clone())).await?;
                    if gone > 0 {
                        return Ok(true);
                    }
                    // Somebody was faster: the next, if there is one.
                    behind(&found)
                }
                (0, Some(last)) => behind(&last),
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
    /// priority, comes once, whatever others add and take. One that can not be decoded is an error, and the stream goes on behind it; behind any other error it is over.
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

fn one<T, C: Decode<T>>(of: &Elements<T, C>, member: &Bytes) -> Result<(i64, T), ObjectError> {
    let (priority, element) = unpacked(member)
        .or_else(|none| Err(ObjectError::decode(of.name()?, Some("an element".into()), of.codec.name(), none)))?;
    Ok((priority, of.one(&element)?))
}

fn streamed<T: Send + 'static, C: Decode<T>>(
    of: Elements<T, C>,
    from: End,
) -> BoxStream<'static, Result<(i64, T), ObjectError>> {
    let begin = (of, VecDeque::<Bytes>::new(), Some(Bytes::from_static(from.of(FIRST, LAST))));
    let all = stream::unfold(begin, move |(of, mut found, mut next)| async move {
        loop {
            if let Some(member) = found.pop_front() {
                return Some((one(&of, &member), (of, found, next)));
            }
            match page(&of, from, next.take()?).await {
                Ok(page) => {
                    next = page.last().filter(|_| page.len() == PAGE).map(|last| behind(last));
                    found.extend(page);
                }
                Err(error) => return Some((Err(error), (of, found, None))),
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
