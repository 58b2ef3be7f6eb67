//! What a subscriber has read and not put behind it: decided without a server and a clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;

use super::MessageId;

/// Messages from the first that is not acknowledged on.
#[derive(Default)]
pub(super) struct Window {
    messages: BTreeMap<MessageId, Message>,
    /// All up to this one are acknowledged here.
    behind: MessageId,
    /// The last one that was read.
    read: MessageId,
}

struct Message {
    payload: Bytes,
    state: State,
    /// It was delivered before.
    again: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be delivered, not before this.
    Waits(Instant),
    /// With whoever it was delivered to.
    Out,
    Acknowledged,
}

/// What is to be delivered.
pub(super) struct Ready {
    pub(super) id: MessageId,
    pub(super) payload: Bytes,
    pub(super) again: bool,
}

impl Window {
    /// All up to this one are acknowledged here.
    pub(super) fn behind(&self) -> MessageId {
        self.behind
    }

    /// What is behind this one is to be read.
    pub(super) fn read(&self) -> MessageId {
        self.read
    }

    /// How many are in it.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Begins behind a message: what is behind it is read again, and is there already where somebody has it.
    pub(super) fn begin(&mut self, behind: MessageId) {
        self.messages.retain(|_, message| message.state == State::Out);
        (self.behind, self.read) = (behind, behind);
    }

    /// A message was read.
    pub(super) fn take(&mut self, id: MessageId, payload: Option<Bytes>) {
        self.read = self.read.max(id);
        // What is none of the topic is nobody's.
        let state = if payload.is_some() { State::Waits(Instant::PAST) } else { State::Acknowledged };
        let message = Message { payload: payload.unwrap_or_default(), state, again: false };
        self.messages.entry(id).or_insert(message);
    }

    /// Whether something is to be delivered now.
    pub(super) fn has_ready(&self, now: Instant) -> bool {
        self.messages.values().any(|message| matches!(message.state, State::Waits(due) if due <= now))
    }

    /// What is to be delivered now, or when the next is.
    pub(super) fn next(&mut self, now: Instant) -> Result<Ready, Instant> {
        let mut next = Instant::NEVER;
        for (id, message) in &mut self.messages {
            match message.state {
                State::Waits(due) if due <= now => {
                    message.state = State::Out;
                    let again = std::mem::replace(&mut message.again, true);
                    return Ok(Ready { id: *id, payload: message.payload.clone(), again });
                }
                State::Waits(due) => next = next.min(due),
                State::Out | State::Acknowledged => {}
            }
        }
        Err(next)
    }

    /// It was not dealt with, and is to be delivered again.
    pub(super) fn give_back(&mut self, id: MessageId, now: Instant, after: Duration) {
        if let Some(message) = self.messages.get_mut(&id).filter(|message| message.state == State::Out) {
            message.state = State::Waits(now + after);
        }
    }

    /// It is dealt with; tells up to where all are now, if that is further than before.
    pub(super) fn acknowledge(&mut self, id: MessageId) -> Option<MessageId> {
        if let Some(message) = self.messages.get_mut(&id) {
            message.state = State::Acknowledged;
        }
        self.advance()
    }

    /// Puts behind what is acknowledged and has nothing in front of it that is not.
    pub(super) fn advance(&mut self) -> Option<MessageId> {
        let former = self.behind;
        while let Some(first) = self.messages.first_entry().filter(|first| first.get().state == State::Acknowledged) {
            self.behind = self.behind.max(*first.key());
            first.remove();
        }
        (self.behind > former).then_some(self.behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> MessageId {
        format!("{n}-0").parse().unwrap()
    }

    fn with(ids: impl IntoIterator<Item = u64>) -> Window {
        let mut window = Window::default();
        ids.into_iter().for_each(|n| window.take(id(n), Some(Bytes::new())));
        window
    }

    const NOW: Instant = Instant::PAST;

    fn next(window: &mut Window) -> Option<(MessageId, bool)> {
        window.next(NOW).ok().map(|ready| (ready.id, ready.again))
    }

    #[test]
    fn only_what_has_nothing_before_it_is_put_behind() {
        let mut window = with([1, 2, 3]);
        for n in 1..=3 {
            assert_eq!(next(&mut window), Some((id(n), false)));
        }
        assert_eq!(next(&mut window), None);
        assert_eq!(window.acknowledge(id(2)), None);
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
        assert_eq!(window.acknowledge(id(1)), None, "twice is once");
        assert_eq!((window.acknowledge(id(3)), window.len()), (Some(id(3)), 0));
    }

    #[test]
    fn what_is_given_back_comes_again_when_it_is_due() {
        let mut window = with([1, 2]);
        assert_eq!(next(&mut window), Some((id(1), false)));
        window.give_back(id(1), NOW, Duration::from_secs(1));
        assert_eq!(next(&mut window), Some((id(2), false)));
        assert_eq!(window.next(NOW).err(), Some(NOW + Duration::from_secs(1)));
        let ready = window.next(NOW + Duration::from_secs(1)).ok().unwrap();
        assert!(ready.id == id(1) && ready.again);
        window.acknowledge(id(1));
        window.give_back(id(1), NOW, Duration::ZERO);
        assert_eq!(next(&mut window), None, "what is acknowledged does not come again");
    }

    #[test]
    fn who_begins_anew_has_what_is_out_once() {
        let mut window = with([1, 2, 3]);
        next(&mut window);
        next(&mut window);
        window.acknowledge(id(2));
        window.begin(id(0));
        for n in 1..=3 {
            window.take(id(n), Some(Bytes::new()));
        }
        assert_eq!(next(&mut window), Some((id(2), false)), "the first is with somebody");
        assert_eq!(next(&mut window), Some((id(3), false)));
        assert_eq!((window.acknowledge(id(1)), window.read()), (Some(id(1)), id(3)));
    }

    #[test]
    fn what_is_no_message_is_nobodys() {
        let mut window = with([1]);
        window.take(id(2), None);
        next(&mut window);
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }
}
