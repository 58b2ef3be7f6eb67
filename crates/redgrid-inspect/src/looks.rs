//! The second check of a lock, before a client is said to be gone.

use std::time::Duration;

use redgrid_core::author::ClientExt;

use crate::error::InspectError;
use crate::holder::{HolderState, HolderView, Mode};
use crate::inspector::Inspector;
use crate::lock::LockView;

/// The time between two checks of a client that seems to be gone: 2 s, longer than a subscription
/// usually takes to reconnect. Most leases are renewed more rarely, by default each 10 s: that is
/// too long to wait for.
const LOOKS_APART: Duration = Duration::from_secs(2);

impl Inspector {
    /// Reads one lock as [`lock`](Inspector::lock), and reads it again 2 s later if a client seems
    /// to be gone.
    ///
    /// A client that reconnects has no channel for a moment, and one without the permission to
    /// subscribe to its channel never has one. So a client is [`HolderState::Gone`] only if it has
    /// no channel in both checks, and has not renewed its lease meanwhile, and each primary has run
    /// for 10 s. It is [`HolderState::Unknown`] otherwise. The view is that of the last check.
    ///
    /// A client that lives without a channel renews its lease after each third of it, by default
    /// each 10 s. So it may be [`HolderState::Gone`] in this view, too.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Inspector::lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lock_twice(&self, name: impl AsRef<str>) -> Result<LockView, InspectError> {
        let name = name.as_ref();
        let first = self.lock(name).await?;
        if !first.has_gone() {
            return Ok(first);
        }
        let clock = self.client.clock();
        clock.sleep_until(clock.now() + LOOKS_APART).await;
        let mut second = self.lock(name).await?;
        if second.has_gone() {
            let is_settled = self.is_settled().await;
            let is_settled = is_settled.map_err(|source| InspectError::of_object("read the lock", name, source))?;
            second.compare_gone(&first, is_settled);
        }
        Ok(second)
    }
}

impl LockView {
    fn has_gone(&self) -> bool {
        let of_holders = self.holders.iter().map(|holder| holder.state);
        of_holders.chain(self.queue.iter().map(|waiter| waiter.state)).any(|state| state == HolderState::Gone)
    }

    /// Marks a client that is gone as unknown, unless an earlier view confirms it. It does not if
    /// the client was not gone then, or has renewed its lease since. If the servers are not
    /// settled, the client's channel may not be there yet.
    fn compare_gone(&mut self, earlier: &LockView, is_settled: bool) {
        // Without a renewal, the rest of a lease is shorter by the time between the checks. With
        // one, it is shorter by less than half of that, however often the lease is renewed.
        let has_been_renewed = |now: Option<Duration>, then: Option<Duration>| {
            then.is_some_and(|then| now > Some(then.saturating_sub(LOOKS_APART / 2)))
        };
        let is_renewed = has_been_renewed(self.lease_left, earlier.lease_left);
        for holder in self.holders.iter_mut().filter(|holder| holder.state == HolderState::Gone) {
            let is_it = |then: &&HolderView| (&then.client, then.number) == (&holder.client, holder.number);
            let was_gone = earlier.holders.iter().find(is_it).filter(|then| then.state == HolderState::Gone);
            let has_renewed = |then: &HolderView| match holder.mode {
                // The lease of a read-write lock is the longest one of several readers.
                Mode::Read => has_been_renewed(holder.reader_lease_left, then.reader_lease_left),
                _ => is_renewed,
            };
            let is_gone = was_gone.is_some_and(|then| !has_renewed(then));
            if !(is_gone && is_settled) {
                holder.state = HolderState::Unknown;
            }
        }
        let gone =
            |client: &str| earlier.queue.iter().any(|then| then.client == client && then.state == HolderState::Gone);
        for waiter in self.queue.iter_mut().filter(|waiter| waiter.state == HolderState::Gone) {
            if !(is_settled && gone(&waiter.client)) {
                waiter.state = HolderState::Unknown;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockKind;

    const ID: &str = "0f8fad5b-d9cb-869f-a165-70867728950e";

    fn view(state: HolderState, left: Option<u64>, mode: Mode) -> LockView {
        let holder = HolderView {
            client: ID.into(),
            number: Some(17),
            entries: 1,
            mode,
            state,
            reader_lease_left: left.map(Duration::from_secs).filter(|_| mode == Mode::Read),
            is_retained: false,
            ask_id: None,
        };
        LockView {
            name: "job".into(),
            kind: LockKind::Plain,
            holders: vec![holder],
            holder_count: 1,
            lease_left: left.map(Duration::from_secs),
            has_lifetime: left.is_some(),
            waiting_clients: None,
            queue: Vec::new(),
            queue_len: None,
            token: None,
        }
    }

    #[test]
    fn a_holder_is_gone_only_if_it_is_so_twice_and_has_not_renewed() {
        use HolderState::{Alive, Gone, Unknown};
        for (first, then, second, left, is_settled, state) in [
            (Gone, Some(20), Gone, Some(18), true, Gone),
            (Gone, None, Gone, None, true, Gone),
            // It was there a moment ago, and may reconnect.
            (Alive, Some(20), Gone, Some(18), true, Unknown),
            // It lives without a channel.
            (Gone, Some(20), Gone, Some(30), true, Unknown),
            // It renews so often that the rest is about the same in each check.
            (Gone, Some(30), Gone, Some(30), true, Unknown),
            // Its channel may be at a node that has just been started.
            (Gone, Some(20), Gone, Some(18), false, Unknown),
            (Gone, Some(20), Alive, Some(18), true, Alive),
        ] {
            for mode in [Mode::Exclusive, Mode::Read] {
                let mut now = view(second, left, mode);
                now.compare_gone(&view(first, then, mode), is_settled);
                assert_eq!(now.holders[0].state, state, "{first:?} {then:?} {left:?} {mode:?} {is_settled}");
            }
        }
        // Another reader has renewed the lock.
        let mut reader = view(Gone, Some(18), Mode::Read);
        reader.lease_left = Some(Duration::from_secs(30));
        reader.compare_gone(&view(Gone, Some(20), Mode::Read), true);
        assert_eq!(reader.holders[0].state, Gone);
    }
}
