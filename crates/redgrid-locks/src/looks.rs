//! Looking again and again at something that is told of by messages: when there is a reason to.

use std::time::Duration;

use redgrid_core::Watch;
use redgrid_core::clock::Clock;

/// The reasons to look. One that was not followed, because its follower was dropped, is there still.
pub(crate) struct Looks {
    watch: Option<Watch>,
    due: bool,
    messages: u64,
}

impl Looks {
    /// The first look is due at once.
    pub(crate) fn new(watch: Option<Watch>) -> Self {
        Looks { watch, due: true, messages: 0 }
    }

    /// Completes when there is a reason to look: something was told, or `within` is over.
    pub(crate) async fn next(&mut self, clock: &Clock, within: Duration) {
        if self.due {
            return;
        }
        let later = clock.sleep_until(clock.now() + within);
        match &mut self.watch {
            Some(watch) => tokio::select! {
                wake = watch.wake() => self.messages += wake.messages,
                () = later => {}
            },
            None => later.await,
        }
        self.due = true;
    }

    /// The look was taken: how many messages came before it.
    pub(crate) fn taken(&mut self) -> u64 {
        self.due = false;
        std::mem::take(&mut self.messages)
    }

    /// Whether messages come in.
    pub(crate) fn hears(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::in_force)
    }
}
