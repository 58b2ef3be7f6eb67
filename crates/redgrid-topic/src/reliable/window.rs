//! The window: the messages of a subscriber, starting with the first unacknowledged one.
//!
//! This code needs neither a server nor a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;

use super::MessageId;

/// The maximum number of locally acknowledged messages that follow an unacknowledged one. They are
/// remembered so that they are not delivered again.
const MAX_ACKNOWLEDGED: usize = 10_000;

/// The messages of a subscriber, starting with the first unacknowledged one.
#[derive(Default)]
pub(super) struct Window {
    messages: BTreeMap<MessageId, Message>,
    /// Messages that were delivered, were discarded by a restart, and will be read again.
    delivered_before: BTreeSet<MessageId>,
    /// All messages up to this id are acknowledged locally.
    acknowledged_up_to: MessageId,
    /// The last message that was read.
    read_up_to: MessageId,
}

struct Message {
    payload: Bytes,
    state: State,
    /// Whether the message was already delivered.
    was_delivered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be delivered at this time or later.
    Waiting(Instant),
    /// Delivered, and held by the user.
    Delivered,
    Acknowledged,
}

/// A message to deliver now.
pub(super) struct Ready {
    pub(super) id: MessageId,
    pub(super) payload: Bytes,
    pub(super) redelivered: bool,
}

impl Window {
    /// Returns the id up to which all messages are acknowledged locally.
    pub(super) fn acknowledged_up_to(&self) -> MessageId {
        self.acknowledged_up_to
    }

    /// Returns the id after which the next read starts.
    pub(super) fn read_up_to(&self) -> MessageId {
        self.read_up_to
    }

    /// Returns the number of messages that may still be read, if at most `max_unacknowledged`
    /// messages may be unacknowledged.
    pub(super) fn capacity(&self, max_unacknowledged: usize) -> usize {
        let unacknowledged = self.messages.values().filter(|message| message.state != State::Acknowledged).count();
        let max_messages = max_unacknowledged + MAX_ACKNOWLEDGED;
        max_unacknowledged.saturating_sub(unacknowledged).min(max_messages.saturating_sub(self.messages.len()))
    }

    /// Restarts reading after the message `after`.
    ///
    /// Later messages are read again. Messages that the user holds or has acknowledged stay in the
    /// window. `redeliver_acknowledged` means that the server has lost the acknowledgements:
    /// acknowledged messages are delivered again.
    pub(super) fn restart(&mut self, after: MessageId, redeliver_acknowledged: bool) {
        // Messages that were acknowledged meanwhile stay acknowledged.
        let after = if redeliver_acknowledged { after } else { after.max(self.acknowledged_up_to) };
        let Window { messages, delivered_before, .. } = self;
        delivered_before.retain(|id| *id > after);
        messages.retain(|id, message| {
            let stays = match message.state {
                State::Delivered => true,
                // The message waits for redelivery. It stays, so that later acknowledgements do not
                // include it.
                State::Waiting(_) => *id > after && message.was_delivered,
                State::Acknowledged => *id > after && message.was_delivered && !redeliver_acknowledged,
            };
            if !stays && message.was_delivered {
                delivered_before.insert(*id);
            }
            stays
        });
        (self.acknowledged_up_to, self.read_up_to) = (after, after);
    }

    /// Adds a message that was read, unless the window already has it.
    pub(super) fn insert(&mut self, id: MessageId, payload: Option<Bytes>) {
        self.read_up_to = self.read_up_to.max(id);
        // An entry that is not a message of the topic is not delivered.
        let state = if payload.is_some() { State::Waiting(Instant::MIN) } else { State::Acknowledged };
        let was_delivered = self.delivered_before.remove(&id);
        let message = Message { payload: payload.unwrap_or_default(), state, was_delivered };
        self.messages.entry(id).or_insert(message);
    }

    /// Returns whether there is a message to deliver now.
    pub(super) fn has_ready(&self, now: Instant) -> bool {
        self.messages.values().any(|message| matches!(message.state, State::Waiting(due) if due <= now))
    }

    /// Returns a message to deliver now, or when the next one is due.
    pub(super) fn next(&mut self, now: Instant) -> Result<Ready, Instant> {
        let mut next = Instant::MAX;
        for (id, message) in &mut self.messages {
            match message.state {
                State::Waiting(due) if due <= now => {
                    message.state = State::Delivered;
                    let redelivered = std::mem::replace(&mut message.was_delivered, true);
                    return Ok(Ready { id: *id, payload: message.payload.clone(), redelivered });
                }
                State::Waiting(due) => next = next.min(due),
                State::Delivered | State::Acknowledged => {}
            }
        }
        Err(next)
    }

    /// Schedules the redelivery of a delivered message that was not acknowledged.
    pub(super) fn schedule_redelivery(&mut self, id: MessageId, now: Instant, delay: Duration) {
        if let Some(message) = self.messages.get_mut(&id).filter(|message| message.state == State::Delivered) {
            message.state = State::Waiting(now + delay);
        }
    }

    /// Acknowledges a message. Returns the new id up to which all messages are acknowledged, if it
    /// has increased.
    pub(super) fn acknowledge(&mut self, id: MessageId) -> Option<MessageId> {
        if let Some(message) = self.messages.get_mut(&id) {
            *message = Message { payload: Bytes::new(), state: State::Acknowledged, was_delivered: true };
        }
        self.advance()
    }

    /// Removes the acknowledged messages at the front. Returns the new id up to which all messages
    /// are acknowledged, if it has increased.
    pub(super) fn advance(&mut self) -> Option<MessageId> {
        let former = self.acknowledged_up_to;
        while let Some(first) = self.messages.first_entry().filter(|first| first.get().state == State::Acknowledged) {
            self.acknowledged_up_to = self.acknowledged_up_to.max(*first.key());
            first.remove();
        }
        // After a restart, do not read acknowledged messages again: they would be delivered again.
        self.read_up_to = self.read_up_to.max(self.acknowledged_up_to);
        (self.acknowledged_up_to > former).then_some(self.acknowledged_up_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> MessageId {
        format!("{n}-0").parse().unwrap()
    }

    fn window_of(ids: impl IntoIterator<Item = u64>) -> Window {
        let mut window = Window::default();
        ids.into_iter().for_each(|n| window.insert(id(n), Some(Bytes::new())));
        window
    }

    const NOW: Instant = Instant::MIN;

    fn next(window: &mut Window) -> Option<(MessageId, bool)> {
        window.next(NOW).ok().map(|ready| (ready.id, ready.redelivered))
    }

    #[test]
    fn the_position_advances_only_past_a_gapless_prefix() {
        let mut window = window_of([1, 2, 3]);
        for n in 1..=3 {
            assert_eq!(next(&mut window), Some((id(n), false)));
        }
        assert_eq!(next(&mut window), None);
        assert_eq!(window.acknowledge(id(2)), None);
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
        assert_eq!(window.acknowledge(id(1)), None, "a second acknowledgement has no effect");
        assert_eq!((window.acknowledge(id(3)), window.messages.len()), (Some(id(3)), 0));
    }

    #[test]
    fn a_dropped_message_is_redelivered_when_due() {
        let mut window = window_of([1, 2]);
        assert_eq!(next(&mut window), Some((id(1), false)));
        window.schedule_redelivery(id(1), NOW, Duration::from_secs(1));
        assert_eq!(next(&mut window), Some((id(2), false)));
        assert_eq!(window.next(NOW).err(), Some(NOW + Duration::from_secs(1)));
        let ready = window.next(NOW + Duration::from_secs(1)).ok().unwrap();
        assert!(ready.id == id(1) && ready.redelivered);
        window.acknowledge(id(1));
        window.schedule_redelivery(id(1), NOW, Duration::ZERO);
        assert_eq!(next(&mut window), None, "acknowledged messages are not delivered again");
    }

    #[test]
    fn a_restart_does_not_redeliver_held_messages() {
        let mut window = window_of([1, 2, 3]);
        next(&mut window);
        next(&mut window);
        window.acknowledge(id(2));
        window.restart(id(0), true);
        for n in 1..=3 {
            window.insert(id(n), Some(Bytes::new()));
        }
        assert_eq!(next(&mut window), Some((id(2), true)), "the first is held by the user");
        assert_eq!(next(&mut window), Some((id(3), false)));
        assert_eq!((window.acknowledge(id(1)), window.read_up_to()), (Some(id(1)), id(3)));
    }

    #[test]
    fn a_restart_at_the_same_server_keeps_acknowledgements() {
        let mut window = window_of([1, 2, 3, 4]);
        for _ in 0..3 {
            next(&mut window);
        }
        window.acknowledge(id(2));
        window.schedule_redelivery(id(3), NOW, Duration::from_secs(1));
        window.restart(id(0), false);
        for n in 1..=4 {
            window.insert(id(n), Some(Bytes::new()));
        }
        assert_eq!((next(&mut window), next(&mut window)), (Some((id(4), false)), None));
        assert_eq!(
            window.next(NOW + Duration::from_secs(1)).ok().map(|ready| (ready.id, ready.redelivered)),
            Some((id(3), true))
        );
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }

    #[test]
    fn acknowledged_messages_are_not_read_again_after_a_restart() {
        let mut window = window_of([1, 2, 3]);
        for _ in 0..3 {
            next(&mut window);
        }
        window.schedule_redelivery(id(1), NOW, Duration::ZERO);
        window.acknowledge(id(2));
        window.acknowledge(id(3));
        window.restart(id(0), false);
        assert_eq!((next(&mut window), window.read_up_to()), (Some((id(1), true)), id(0)));
        assert_eq!((window.acknowledge(id(1)), window.read_up_to()), (Some(id(3)), id(3)));
    }

    #[test]
    fn a_restart_keeps_dropped_messages_before_acknowledged_ones() {
        let mut window = window_of([1, 2]);
        next(&mut window);
        next(&mut window);
        window.schedule_redelivery(id(1), NOW, Duration::ZERO);
        window.restart(id(0), true);
        assert_eq!((window.acknowledge(id(2)), window.read_up_to()), (None, id(0)));
        for n in 1..=3 {
            window.insert(id(n), Some(Bytes::new()));
        }
        assert_eq!((next(&mut window), next(&mut window)), (Some((id(1), true)), Some((id(3), false))));
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }

    #[test]
    fn acknowledged_messages_do_not_use_capacity() {
        let mut window = window_of([1, 2, 3]);
        assert_eq!(window.capacity(3), 0);
        for _ in 0..3 {
            next(&mut window);
        }
        window.acknowledge(id(2));
        window.acknowledge(id(3));
        assert_eq!(window.capacity(3), 2);
        for n in 4..=10_002 {
            window.insert(id(n), None);
        }
        assert_eq!(
            (window.messages.len(), window.capacity(3)),
            (10_002, 1),
            "the number of remembered messages is limited"
        );
    }

    #[test]
    fn entries_that_are_no_messages_are_skipped() {
        let mut window = window_of([1]);
        window.insert(id(2), None);
        next(&mut window);
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }
}
