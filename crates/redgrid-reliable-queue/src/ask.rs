//! One request for messages, and its answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;

use crate::desk::Desk;
use crate::message::{MessageId, Receipt, moment};

/// For how long a message is given to nobody else, where neither the queue nor who receives says: 30 s, as long as holds last elsewhere.
pub(crate) const VISIBILITY: Duration = Duration::from_secs(30);

/// How many messages one request is given, at most: as receive.lua has it.
pub(crate) const MOST: usize = 100;

/// What one who waits asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// How many messages at most, 1 or more.
    pub(crate) most: usize,
    /// As the queue says where it is `None`.
    pub(crate) visibility: Option<Duration>,
}

/// A message that was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) receipt: Receipt,
    pub(crate) attempt: u32,
    pub(crate) priority: u8,
    pub(crate) pushed_at: SystemTime,
    /// Until when nobody else is given it: a lower bound, by our clock.
    pub(crate) until: Instant,
    pub(crate) framed: Bytes,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    /// For each wish.
    pub(crate) given: Vec<Vec<Given>>,
    /// When something is due next; `None` where nothing is.
    pub(crate) due: Option<Duration>,
    /// There may be more to be had at once.
    pub(crate) more: bool,
}

/// Asks for messages: as often as it takes, with one outcome.
pub(crate) async fn ask(desk: Arc<Desk>, wishes: Vec<Wish>) -> Result<Answer, ServerError> {
    let client = &desk.client;
    let (number, known) = desk.numbers();
    let token = uuid::Uuid::new_v4().simple().to_string();
    let began = client.clock().now();
    let until = began + client.patience();
    let request = desk.keys.receive(client, (number, known), &token, until).arg(millis(VISIBILITY));
    let request = wishes.iter().fold(request, |request, wish| {
        request.arg(wish.most.to_string()).arg(wish.visibility.map_or("0".into(), millis))
    });
    let said: Vec<Bytes> = client.run_until(request, until).await?;
    let answer = read(&said, &token, began, wishes.len()).ok_or_else(|| ServerError::Decode {
        expected: "messages and what is known of them",
        got: format!("a list of {}", said.len()),
    })?;
    desk.knows(number);
    Ok(answer)
}

pub(crate) fn millis(time: Duration) -> Bytes {
    time.as_millis().to_string().into()
}

fn read(said: &[Bytes], token: &str, began: Instant, wishes: usize) -> Option<Answer> {
    let [_, due, more, messages @ ..] = said else { return None };
    let due: i64 = number(due)?;
    let due = u64::try_from(due).ok().map(Duration::from_millis);
    let mut given: Vec<Vec<Given>> = (0..wishes).map(|_| Vec::new()).collect();
    for message in messages.chunks(7) {
        let [asker, id, attempt, priority, pushed, visibility, framed] = message else { return None };
        let id = MessageId::read(id)?;
        let asker: usize = number(asker)?;
        given.get_mut(asker.checked_sub(1)?)?.push(Given {
            receipt: Receipt { id, token: Bytes::copy_from_slice(token.as_bytes()) },
            attempt: number(attempt)?,
            priority: number(priority)?,
            pushed_at: moment(pushed)?,
            until: began + Duration::from_millis(number(visibility)?),
            framed: framed.clone(),
        });
    }
    Some(Answer { given, due, more: more[..] == *b"1" })
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
