//! The rules of the protocol, each with a switch.

/// The rules of clients and scripts. The design has all of them on; each rule switched off is a
/// possible mistake.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A copy of an acquire carries `not_after`, and the server refuses it later. Off: it runs
    /// whenever it arrives.
    pub acquire_carries_not_after: bool,
    /// `not_after` is written with a lower bound of the clock difference. Off: with an upper bound.
    pub not_after_uses_the_lower_bound: bool,
    /// A hold with an unanswered copy of its acquire is released once more after the latest
    /// `not_after`. Off: one answered release is enough.
    pub unclean_is_released_again: bool,
    /// The server's time in an answer, compared with the written `not_after`, decides whether a
    /// lost copy is too late. Off: the client's own clock decides, which is right only while it
    /// runs like the server's.
    pub server_time_decides: bool,
    /// A hold is forgotten when its last release was answered. Off: when it was sent.
    pub forgets_when_answered: bool,
    /// Every attempt has a field of its own. Off: one field per client.
    pub field_is_new: bool,
    /// The deadline counts from before the request left. Off: from the reply.
    pub deadline_counts_from_sending: bool,
    /// The deadline is earlier than the end of the lease by a margin. Off: no margin, however the
    /// clocks run.
    pub deadline_keeps_a_margin: bool,
    /// The script sets the holder. Off: it counts, as Redisson's re-entry does, and each release
    /// counts down.
    pub acquire_sets: bool,
    /// A repeated acquire never shortens the lease. Off: it sets it.
    pub acquire_never_shortens: bool,
    /// Only a confirmed renewal moves the deadline. Off: a sent one does.
    pub only_confirmation_raises: bool,
    /// A renewal never shortens the lease. Off: it sets it.
    pub renewal_never_shortens: bool,
    /// A renewal writes only to a key that holds its field. Off: it writes its field in any case.
    pub renewal_compares: bool,
    /// An extend to less than the deadline lowers the deadline before it is sent. Off: when it is
    /// confirmed.
    pub shortening_lowers_first: bool,
    /// An extend carries `not_after`. Off: it runs whenever it arrives.
    pub extend_carries_not_after: bool,
    /// An extend that went unanswered is never sent again. Off: it is, with a fresh `not_after`.
    pub extend_is_sent_once: bool,
    /// While a shortening may still be executed, no confirmation raises the deadline. Off: any
    /// confirmation does.
    pub rise_waits_for_the_shortening: bool,
    /// An extend that does not lower the deadline can only lengthen the lease on the server too, as
    /// a renewal does. Off: it sets the lease.
    pub lengthening_only_lengthens: bool,
    /// A first release that finds nothing is reported as lost. Off: as released.
    pub nothing_at_first_is_lost: bool,
    /// A repeated release that finds nothing before the deadline is reported as released. Off: as
    /// lost.
    pub nothing_at_a_repeat_is_released: bool,
    /// A repeated release that finds nothing after the deadline is reported as unknown. Off: as
    /// lost.
    pub nothing_after_the_deadline_is_unknown: bool,
    /// A release of an unclean hold that finds it after the deadline is reported as unknown: a late
    /// copy may have acquired it again after another holder. Off: as released.
    pub found_after_the_deadline_is_unknown: bool,
    /// "Too late" is followed by a retry. Off: it is reported as busy.
    pub too_late_is_not_busy: bool,
    /// "Too late" is no grant. Off: it is handled as one.
    pub too_late_is_not_granted: bool,
    /// A client stops believing at its deadline. Off: it believes until it releases.
    pub deadline_ends_belief: bool,
    /// A client stops believing after the answer "not yours". Off: it continues.
    pub not_yours_ends_belief: bool,
    /// Tokens are the server's time. Off: a count stored in the key, which starts again with a new
    /// key.
    pub token_outlives_the_key: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        acquire_carries_not_after: true,
        not_after_uses_the_lower_bound: true,
        unclean_is_released_again: true,
        server_time_decides: true,
        forgets_when_answered: true,
        field_is_new: true,
        deadline_counts_from_sending: true,
        deadline_keeps_a_margin: true,
        acquire_sets: true,
        acquire_never_shortens: true,
        only_confirmation_raises: true,
        renewal_never_shortens: true,
        renewal_compares: true,
        shortening_lowers_first: true,
        extend_carries_not_after: true,
        extend_is_sent_once: true,
        rise_waits_for_the_shortening: true,
        lengthening_only_lengthens: true,
        nothing_at_first_is_lost: true,
        nothing_at_a_repeat_is_released: true,
        nothing_after_the_deadline_is_unknown: true,
        found_after_the_deadline_is_unknown: true,
        too_late_is_not_busy: true,
        too_late_is_not_granted: true,
        deadline_ends_belief: true,
        not_yours_ends_belief: true,
        token_outlives_the_key: true,
    };
}
