//! What a subscriber has read and not put behind it: decided without a server and a clock of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Instant;

use super::MessageId;

/// How many are acknowledged here behind one that is not, at most: 10,000. So much is kept of them that they do not come again.
const MOST_ACKNOWLEDGED: usize = 10_000;

/// Messages from the first that is not acknowledged on.
#[derive(Default)]
pub(super) struct Window {
    messages: BTreeMap<MessageId, Message>,
    /// Those that were delivered and are to be read again.
    came: BTreeSet<MessageId>,
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

    /// How many may still be read where so many may be out, or wait.
    pub(super) fn room(&self, most: usize) -> usize {
        let open = self.messages.values().filter(|message| message.state != State::Acknowledged).count();
        most.saturating_sub(open).min((most + MOST_ACKNOWLEDGED).saturating_sub(self.messages.len()))
    }

    /// Begins behind a message: what is behind it is read again, and is there already where somebody has it or has dealt with it. `anew`: what
    /// was dealt with is not known there, and comes again.
    pub(super) fn begin(&mut self, behind: MessageId, anew: bool) {
        // What was acknowledged meanwhile stays so.
        let behind = if anew { behind } else { behind.max(self.behind) };
        let Window { messages, came, .. } = self;
        came.retain(|id| *id > behind);
        messages.retain(|id, message| {
            let stays = match message.state {
                State::Out => true,
                // What was delivered comes again, and nothing behind it is put behind before.
                State::Waits(_) => *id > behind && message.again,
                State::Acknowledged => *id > behind && message.again && !anew,
            };
            if !stays && message.again {
                came.insert(*id);
            }
            stays
        });
        (self.behind, self.read) = (behind, behind);
    }

    /// A message was read.
    pub(super) fn take(&mut self, id: MessageId, payload: Option<Bytes>) {
        self.read = self.read.max(id);
        // What is none of the topic is nobody's.
        let state = if payload.is_some() { State::Waits(Instant::MIN) } else { State::Acknowledged };
        let again = self.came.remove(&id);
        let message = Message { payload: payload.unwrap_or_default(), state, again };
        self.messages.entry(id).or_insert(message);
    }

    /// Whether something is to be delivered now.
    pub(super) fn has_ready(&self, now: Instant) -> bool {
        self.messages.values().any(|message| matches!(message.state, State::Waits(due) if due <= now))
    }

    /// What is to be delivered now, or when the next is.
    pub(super) fn next(&mut self, now: Instant) -> Result<Ready, Instant> {
        let mut next = Instant::MAX;
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
            *message = Message { payload: Bytes::new(), state: State::Acknowledged, again: true };
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
        // What is read again from further back is not: it would come once more.
        self.read = self.read.max(self.behind);
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

    const NOW: Instant = Instant::MIN;

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
        assert_eq!((window.acknowledge(id(3)), window.messages.len()), (Some(id(3)), 0));
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
        window.begin(id(0), true);
        for n in 1..=3 {
            window.take(id(n), Some(Bytes::new()));
        }
        assert_eq!(next(&mut window), Some((id(2), true)), "the first is with somebody");
        assert_eq!(next(&mut window), Some((id(3), false)));
        assert_eq!((window.acknowledge(id(1)), window.read()), (Some(id(1)), id(3)));
    }

    #[test]
    fn who_reads_again_of_the_same_server_has_what_was_dealt_with_behind_him() {
        let mut window = with([1, 2, 3, 4]);
        for _ in 0..3 {
            next(&mut window);
        }
        window.acknowledge(id(2));
        window.give_back(id(3), NOW, Duration::from_secs(1));
        window.begin(id(0), false);
        for n in 1..=4 {
            window.take(id(n), Some(Bytes::new()));
        }
        assert_eq!((next(&mut window), next(&mut window)), (Some((id(4), false)), None));
        assert_eq!(
            window.next(NOW + Duration::from_secs(1)).ok().map(|ready| (ready.id, ready.again)),
            Some((id(3), true))
        );
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }

    #[test]
    fn what_was_dealt_with_before_it_was_read_again_is_not_read_again() {
        let mut window = with([1, 2, 3]);
        for _ in 0..3 {
            next(&mut window);
        }
        window.give_back(id(1), NOW, Duration::ZERO);
        window.acknowledge(id(2));
        window.acknowledge(id(3));
        window.begin(id(0), false);
        assert_eq!((next(&mut window), window.read()), (Some((id(1), true)), id(0)));
        assert_eq!((window.acknowledge(id(1)), window.read()), (Some(id(3)), id(3)));
    }

    #[test]
    fn who_begins_anew_has_what_was_given_back_although_what_is_behind_it_is_dealt_with() {
        let mut window = with([1, 2]);
        next(&mut window);
        next(&mut window);
        window.give_back(id(1), NOW, Duration::ZERO);
        window.begin(id(0), true);
        assert_eq!((window.acknowledge(id(2)), window.read()), (None, id(0)));
        for n in 1..=3 {
            window.take(id(n), Some(Bytes::new()));
        }
        assert_eq!((next(&mut window), next(&mut window)), (Some((id(1), true)), Some((id(3), false))));
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }

    #[test]
    fn what_is_acknowledged_behind_one_that_is_not_takes_no_room() {
        let mut window = with([1, 2, 3]);
        assert_eq!(window.room(3), 0);
        for _ in 0..3 {
            next(&mut window);
        }
        window.acknowledge(id(2));
        window.acknowledge(id(3));
        assert_eq!(window.room(3), 2);
        for n in 4..=10_002 {
            window.take(id(n), None);
        }
        assert_eq!((window.messages.len(), window.room(3)), (10_002, 1), "so much is remembered");
    }

    #[test]
    fn what_is_no_message_is_nobodys() {
        let mut window = with([1]);
        window.take(id(2), None);
        next(&mut window);
        assert_eq!(window.acknowledge(id(1)), Some(id(2)));
    }
}
