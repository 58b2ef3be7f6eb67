//! A request for messages, and its reply.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;

use crate::message::{MessageId, Receipt, parse_millis};
use crate::work_client::WorkClient;

/// Default visibility: 30 s, the same as the default of other leases.
pub(crate) const DEFAULT_VISIBILITY: Duration = Duration::from_secs(30);

/// The maximum number of messages of one request. receive.lua has the same limit.
pub const MAX_MESSAGES: usize = 100;

/// The messages that one waiter requests.
#[derive(Debug, Clone, Copy)]
// Not `#[non_exhaustive]`: only the crates above this one use it.
pub struct MessageRequest {
    /// The maximum number of messages, 1 or more.
    pub max: usize,
    /// `None` means the queue's setting.
    pub visibility: Option<Duration>,
}

/// A message of a reply.
#[derive(Debug)]
// Not `#[non_exhaustive]`: only the crates above this one use it.
pub struct ReceivedMessage {
    /// The receipt of this delivery, with the id of the message.
    pub receipt: Receipt,
    /// The number of deliveries, including this one.
    pub attempt: u32,
    /// The priority, 0 to 9.
    pub priority: u8,
    /// When the message was pushed, by the server's clock.
    pub pushed_at: SystemTime,
    /// The end of the visibility by the local clock. It is a lower bound.
    pub until: Instant,
    /// The stored bytes, with the frame of `body`.
    pub bytes: Bytes,
}

/// The reply to a request for messages.
#[derive(Debug)]
pub(crate) struct ReceiveReply {
    /// The messages for each waiter, in the order of the request.
    pub(crate) messages: Vec<Vec<ReceivedMessage>>,
    /// The time until the next message is due; `None` if there is none.
    pub(crate) next_due: Option<Duration>,
    /// Whether more messages may be available now.
    pub(crate) more: bool,
}

/// Requests messages. The request is retried until it is answered, and is executed once.
pub(crate) async fn send_receive(
    work_client: Arc<WorkClient>,
    requests: Vec<MessageRequest>,
) -> Result<ReceiveReply, ServerError> {
    let client = work_client.client();
    let (number, last_answered) = work_client.request_numbers();
    let token = uuid::Uuid::new_v4().simple().to_string();
    let began = client.clock().now();
    let until = began + client.patience();
    let request =
        work_client.keys().receive(client, (number, last_answered), &token, until).arg(millis(DEFAULT_VISIBILITY));
    let request = requests.iter().fold(request, |request, wanted| {
        request.arg(wanted.max.to_string()).arg(wanted.visibility.map_or("0".into(), millis))
    });
    let fields: Vec<Bytes> = client.run_until(request, until).await?;
    let reply = read(&fields, &token, began, requests.len()).ok_or_else(|| ServerError::Decode {
        expected: "messages with their states",
        got: format!("a list of {}", fields.len()),
    })?;
    work_client.request_answered(number);
    Ok(reply)
}

/// Returns a time in milliseconds, as text.
pub fn millis(time: Duration) -> Bytes {
    time.as_millis().to_string().into()
}

fn read(fields: &[Bytes], token: &str, began: Instant, requests: usize) -> Option<ReceiveReply> {
    let [_, due, more, messages @ ..] = fields else { return None };
    let due: i64 = number(due)?;
    let next_due = u64::try_from(due).ok().map(Duration::from_millis);
    let mut given: Vec<Vec<ReceivedMessage>> = (0..requests).map(|_| Vec::new()).collect();
    for message in messages.chunks(7) {
        let [waiter, id, attempt, priority, pushed, visibility, bytes] = message else { return None };
        let id = MessageId::read(id)?;
        let waiter: usize = number(waiter)?;
        given.get_mut(waiter.checked_sub(1)?)?.push(ReceivedMessage {
            receipt: Receipt { id, token: Bytes::copy_from_slice(token.as_bytes()) },
            attempt: number(attempt)?,
            priority: number(priority)?,
            pushed_at: parse_millis(pushed)?,
            until: began + Duration::from_millis(number(visibility)?),
            bytes: bytes.clone(),
        });
    }
    Some(ReceiveReply { messages: given, next_due, more: more[..] == *b"1" })
}

fn number<N: std::str::FromStr>(text: &[u8]) -> Option<N> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
