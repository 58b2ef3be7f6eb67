//! A bounded buffer of the messages of several channels, for one reader. In place of dropped
//! messages, the buffer reports their number.

use std::collections::{HashSet, VecDeque};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::AtomicWaker;

use super::stream::PubSubEvent;
use crate::error::ServerError;
use crate::sync::Mutex;

/// The message buffer of one reader. All channels of the reader put their messages into it. The
/// reader's stream of events begins with [`MessageBuffer::start`].
pub struct MessageBuffer {
    state: Mutex<State>,
    reader: AtomicWaker,
    capacity: usize,
}

#[derive(Default)]
struct State {
    events: VecDeque<PubSubEvent>,
    last_channel_id: u64,
    /// Ids of the channels that were added before the stream started, and have not been active yet.
    pending: HashSet<u64>,
    /// Ids of the inactive channels whose current gap is already reported.
    gap_reported: HashSet<u64>,
    started: bool,
    denied: Option<ServerError>,
    closed: bool,
}

impl State {
    fn push_gap(&mut self) {
        if self.events.back() != Some(&PubSubEvent::Gap) {
            self.events.push_back(PubSubEvent::Gap);
        }
    }
}

/// Why a subscription is not active.
#[derive(Debug, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only redgrid-core uses it.
pub enum SubscribeError {
    /// The server refuses a channel.
    Denied(ServerError),
    /// Waiting does not help, because the servers refuse this client, or are not servers of the
    /// expected kind.
    ClientRefused(ServerError),
    /// The client has ended, or is shutting down.
    ShutDown,
    /// No server has confirmed the channels in time.
    Timeout,
}

impl MessageBuffer {
    /// Creates a buffer of `capacity` messages.
    pub fn new(capacity: usize) -> MessageBuffer {
        MessageBuffer { state: Mutex::default(), reader: AtomicWaker::new(), capacity }
    }

    /// Adds a channel, and returns its id in this buffer.
    pub(super) fn add_channel(&self) -> u64 {
        let mut state = self.state.lock();
        state.last_channel_id += 1;
        let channel_id = state.last_channel_id;
        if !state.started {
            state.pending.insert(channel_id);
        }
        channel_id
    }

    /// Records that a channel is active: from now on, all of its messages are received.
    ///
    /// Normally an activation ends a gap, and the gap is reported now, unless it was reported
    /// before. There is one exception: the first activation of a channel that was added before the
    /// stream started. This activation reports no gap, because the stream starts only when all such
    /// channels are active.
    pub(super) fn channel_active(&self, channel_id: u64) {
        let mut state = self.state.lock();
        let is_reported = state.pending.remove(&channel_id) | state.gap_reported.remove(&channel_id);
        if !is_reported {
            state.push_gap();
        }
        drop(state);
        self.reader.wake();
    }

    /// Adds a message of a channel that is not known to be active. If the current gap is not
    /// reported yet, a gap event is added before the message.
    ///
    /// The message is discarded if the channel was added before the stream started, and has not
    /// been active yet.
    pub(super) fn push_unconfirmed(&self, channel_id: u64, channel: &Bytes, payload: &Bytes) {
        let mut state = self.state.lock();
        if state.pending.contains(&channel_id) {
            return;
        }
        if state.gap_reported.insert(channel_id) {
            state.push_gap();
        }
        drop(state);
        self.push(channel, payload);
    }

    /// Records that a channel has become inactive. A gap is reported before the channel's next
    /// message, or when the channel is active again.
    pub(super) fn channel_interrupted(&self, channel_id: u64) {
        self.state.lock().gap_reported.remove(&channel_id);
    }

    pub(super) fn channel_removed(&self, channel_id: u64) {
        let mut state = self.state.lock();
        state.pending.remove(&channel_id);
        state.gap_reported.remove(&channel_id);
        drop(state);
        self.reader.wake();
    }

    pub(super) fn channel_denied(&self, why: &ServerError) {
        let mut state = self.state.lock();
        state.denied = Some(why.clone());
        if state.started && !matches!(state.events.back(), Some(PubSubEvent::Denied(_))) {
            state.events.push_back(PubSubEvent::Denied(why.clone()));
        }
        drop(state);
        self.reader.wake();
    }

    pub(super) fn push(&self, channel: &Bytes, payload: &Bytes) {
        let mut state = self.state.lock();
        if state.events.len() < self.capacity {
            state.events.push_back(PubSubEvent::Message { channel: channel.clone(), payload: payload.clone() });
        } else {
            match state.events.back_mut() {
                Some(PubSubEvent::Missed(count)) => *count += 1,
                // The last event in the buffer is a gap: it already reports that messages are
                // missing.
                Some(PubSubEvent::Gap) => {}
                _ => state.events.push_back(PubSubEvent::Missed(1)),
            }
        }
        drop(state);
        self.reader.wake();
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.reader.wake();
    }

    /// Starts the stream. A channel that is added later reports a gap when it becomes active.
    pub fn start(&self) {
        self.state.lock().started = true;
    }

    /// Polls whether all channels are active.
    pub(crate) fn poll_active(&self, context: &mut Context<'_>) -> Poll<Result<(), SubscribeError>> {
        self.reader.register(context.waker());
        let state = self.state.lock();
        match &state.denied {
            _ if state.closed => Poll::Ready(Err(SubscribeError::ShutDown)),
            Some(why) => Poll::Ready(Err(SubscribeError::Denied(why.clone()))),
            None if state.last_channel_id > 0 && state.pending.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }

    /// Polls for the next event; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<PubSubEvent>> {
        self.reader.register(context.waker());
        let mut state = self.state.lock();
        match state.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn next(buffer: &MessageBuffer) -> Option<PubSubEvent> {
        match buffer.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    fn is_active(buffer: &MessageBuffer) -> bool {
        buffer.poll_active(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(()))
    }

    #[test]
    fn a_slow_reader_learns_how_much_it_missed_and_where() {
        let buffer = MessageBuffer::new(2);
        let message = |text: &'static str| (Bytes::from_static(b"c"), Bytes::from_static(text.as_bytes()));
        let push = |text| buffer.push(&message(text).0, &message(text).1);
        let is = |text| Some(PubSubEvent::Message { channel: message(text).0, payload: message(text).1 });
        ["1", "2", "3", "4"].into_iter().for_each(push);
        assert_eq!(next(&buffer), is("1"));
        // A `Missed` event occupies capacity, too, until it is read.
        push("5");
        assert_eq!((next(&buffer), next(&buffer)), (is("2"), Some(PubSubEvent::Missed(3))));
        push("6");
        assert_eq!((next(&buffer), next(&buffer)), (is("6"), None));
        // The buffer stays small, however many messages arrive.
        for _ in 0..100 {
            push("7");
            buffer.channel_active(1);
        }
        assert!(buffer.state.lock().events.len() <= 4, "{:?}", buffer.state.lock().events);
        buffer.close();
        while next(&buffer).is_some() {}
        assert_eq!(buffer.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    }

    #[test]
    fn the_first_confirmation_is_the_start_and_each_later_one_a_gap() {
        let buffer = MessageBuffer::new(2);
        assert!(!is_active(&buffer), "no channel is active yet");
        let (one, other, leaves) = (buffer.add_channel(), buffer.add_channel(), buffer.add_channel());
        buffer.channel_active(one);
        buffer.channel_active(other);
        assert!(!is_active(&buffer));
        buffer.channel_removed(leaves);
        assert!(is_active(&buffer));
        let more = buffer.add_channel();
        assert!(!is_active(&buffer), "more of the beginning");
        buffer.channel_active(more);
        assert!(is_active(&buffer));
        buffer.start();
        assert_eq!(next(&buffer), None);
        buffer.channel_active(one);
        buffer.channel_active(other);
        assert_eq!((next(&buffer), next(&buffer)), (Some(PubSubEvent::Gap), None), "one for both");
        let later = buffer.add_channel();
        buffer.channel_active(later);
        assert_eq!(next(&buffer), Some(PubSubEvent::Gap), "a node that has come");
    }

    #[test]
    fn a_gap_precedes_messages_from_before_the_confirmation() {
        let buffer = MessageBuffer::new(8);
        let message = |text: &'static str| (Bytes::from_static(b"c"), Bytes::from_static(text.as_bytes()));
        let early = |channel_id, text| buffer.push_unconfirmed(channel_id, &message(text).0, &message(text).1);
        let is = |text| Some(PubSubEvent::Message { channel: message(text).0, payload: message(text).1 });
        let one = buffer.add_channel();
        early(one, "before the beginning");
        buffer.channel_active(one);
        buffer.start();
        assert_eq!(next(&buffer), None);
        buffer.channel_interrupted(one);
        early(one, "1");
        early(one, "2");
        buffer.channel_active(one);
        assert_eq!(
            (next(&buffer), next(&buffer), next(&buffer), next(&buffer)),
            (Some(PubSubEvent::Gap), is("1"), is("2"), None)
        );
        // The channel is interrupted a second time before it is active again.
        buffer.channel_interrupted(one);
        early(one, "3");
        buffer.channel_interrupted(one);
        early(one, "5");
        buffer.channel_active(one);
        let expected = [Some(PubSubEvent::Gap), is("3"), Some(PubSubEvent::Gap), is("5"), None];
        assert_eq!([(); 5].map(|()| next(&buffer)), expected);
        buffer.channel_interrupted(one);
        buffer.channel_active(one);
        assert_eq!((next(&buffer), next(&buffer)), (Some(PubSubEvent::Gap), None));
    }
}
