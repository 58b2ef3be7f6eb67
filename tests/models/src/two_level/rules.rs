//! The rules of the second level, each with a switch.

/// The rules of lock tables. In the design, all rules are on. Switching a rule off models a
/// possible mistake, which "Off" describes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A server lease is not handed over after its deadline. Off: only the hand-over window limits
    /// the hand-over.
    pub hand_over_checks_the_deadline: bool,
    /// The next owner's lease must end before the server lease. Off: the owner gets its lease,
    /// however little of the server lease is left.
    pub hand_over_covers_the_lease: bool,
    /// A server lease that is too short for the next owner is lengthened first. Off: the next owner
    /// believes as soon as the lengthening is sent.
    pub lengthening_is_confirmed_first: bool,
    /// A server lease is not handed over after the hand-over window. Off: it is handed over as long
    /// as it lasts.
    pub window_ends_handover: bool,
    /// The k-th token waits until k is less than the time since the process received the grant.
    /// Off: it is issued immediately.
    pub token_waits_for_time: bool,
    /// After a takeover, the new holder's token is read one hand-over window later. Off: the token
    /// is the time of the takeover.
    pub taker_waits_a_window: bool,
    /// A takeover without waiters keeps the name for its hand-over window. Off: the name is freed
    /// immediately.
    pub unwanted_takeover_waits: bool,
    /// A takeover of unknown outcome is released one hand-over window after its last copy is
    /// refused. Off: it is also released immediately.
    pub unknown_takeover_waits: bool,
    /// After the notice of a forced takeover, the server lease is not handed over. Off: the
    /// hand-over window continues.
    pub force_ends_hand_over: bool,
    /// An owner believes until its own deadline, and the table enforces it. Off: until its guard is
    /// dropped.
    pub owner_has_a_deadline: bool,
    /// A dropped guard ends only the ownership that it belongs to. Off: it ends any present
    /// ownership.
    pub release_names_its_owner: bool,
    /// An ownership ends with its last guard. Off: it ends with the first dropped guard.
    pub last_guard_ends: bool,
    /// Re-entry keeps the deadline. Off: the holder gets its whole lease again.
    pub reentry_keeps_the_deadline: bool,
    /// Re-entry is refused after the deadline. Off: the ownership continues.
    pub reentry_ends_with_the_deadline: bool,
    /// A grant is given to the first waiter, whichever task caused the request. Off: it is released
    /// if that task has cancelled.
    pub grant_outlives_its_waiter: bool,
    /// Watching a key of another process is the table's task. Off: it ends with the waiter that
    /// began it.
    pub watch_outlives_its_waiter: bool,
    /// After the loss of a request, the table checks the server lease again. Off: the tasks that
    /// depend on the reply wait for ever.
    pub loss_is_handled: bool,
    /// After an answered release, the table begins an attempt for tasks that began to wait
    /// meanwhile. Off: it takes no further step.
    pub release_begins_an_attempt: bool,
    /// Adopting a server lease cancels its queued release. Off: the release is sent although the
    /// lease is used.
    pub adoption_takes_the_release_back: bool,
    /// An attempt of unknown outcome is kept until the server can have no trace of it. Off: the
    /// next attempt replaces it.
    pub deferred_release_is_kept: bool,
    /// The first waiter enters first. Off: the last one.
    pub first_come_first_served: bool,
    /// A server lease is neither handed over nor released before `at_least` has ended. Off: it is,
    /// when the owner releases.
    pub at_least_keeps_the_name: bool,
    /// The key's lease covers `at_least`. Off: it covers only the task's lease, and a crash frees
    /// the name early.
    pub at_least_is_in_the_lease: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        hand_over_checks_the_deadline: true,
        hand_over_covers_the_lease: true,
        lengthening_is_confirmed_first: true,
        window_ends_handover: true,
        token_waits_for_time: true,
        taker_waits_a_window: true,
        unwanted_takeover_waits: true,
        unknown_takeover_waits: true,
        force_ends_hand_over: true,
        owner_has_a_deadline: true,
        release_names_its_owner: true,
        last_guard_ends: true,
        reentry_keeps_the_deadline: true,
        reentry_ends_with_the_deadline: true,
        grant_outlives_its_waiter: true,
        watch_outlives_its_waiter: true,
        loss_is_handled: true,
        release_begins_an_attempt: true,
        adoption_takes_the_release_back: true,
        deferred_release_is_kept: true,
        first_come_first_served: true,
        at_least_keeps_the_name: true,
        at_least_is_in_the_lease: true,
    };
}
