//! The rules of the protocol, each with a switch.

/// The rules of clients and scripts. In the design, all rules are on. Switching a rule off models a
/// possible mistake, which "Off" describes.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A copy of an acquire carries `not_after`, and the server refuses it after that time. Off: it
    /// is executed whenever it arrives.
    pub acquire_carries_not_after: bool,
    /// `not_after` is calculated with a lower bound of the clock difference. Off: with an upper
    /// bound.
    pub not_after_uses_the_lower_bound: bool,
    /// A hold with an unanswered copy of its acquire is released once more after the latest
    /// `not_after`. Off: one answered release is enough.
    pub unclean_is_released_again: bool,
    /// The server's time in an answer, compared with the written `not_after`, decides whether a
    /// lost copy is too late. Off: the client's own clock decides, which is correct only while it
    /// runs at the same rate as the server's.
    pub server_time_decides: bool,
    /// A hold is forgotten when its last release is answered. Off: when that release is sent.
    pub forgets_when_answered: bool,
    /// Every attempt has a field of its own. Off: one field per client.
    pub field_is_new: bool,
    /// The deadline counts from before the request was sent. Off: from the reply.
    pub deadline_counts_from_sending: bool,
    /// The deadline is earlier than the end of the lease by a margin. Off: there is no margin,
    /// whatever the clock errors.
    pub deadline_keeps_a_margin: bool,
    /// The script sets the holder. Off: it increments a count, as Redisson's re-entry does, and
    /// each release decrements it.
    pub acquire_sets: bool,
    /// A repeated acquire never shortens the lease. Off: it sets the lease.
    pub acquire_never_shortens: bool,
    /// Only a confirmed renewal moves the deadline. Off: a renewal moves it when it is sent.
    pub only_confirmation_raises: bool,
    /// A renewal never shortens the lease. Off: it sets the lease.
    pub renewal_never_shortens: bool,
    /// A renewal writes only to a key that holds its field. Off: it writes its field in any case.
    pub renewal_compares: bool,
    /// An extend to less than the deadline lowers the deadline before it is sent. Off: when it is
    /// confirmed.
    pub shortening_lowers_first: bool,
    /// An extend carries `not_after`. Off: it is executed whenever it arrives.
    pub extend_carries_not_after: bool,
    /// An extend that went unanswered is never sent again. Off: it is sent again, with a new
    /// `not_after`.
    pub extend_is_sent_once: bool,
    /// While a shortening may still be executed, no confirmation raises the deadline. Off: any
    /// confirmation does.
    pub rise_waits_for_the_shortening: bool,
    /// An extend that does not lower the deadline can only lengthen the lease on the server too, as
    /// a renewal does. Off: it sets the lease.
    pub lengthening_only_lengthens: bool,
    /// If a first release does not find the field, the hold is reported as lost. Off: as released.
    pub nothing_at_first_is_lost: bool,
    /// If a repeated release does not find the field before the deadline, the hold is reported as
    /// released. Off: as lost.
    pub nothing_at_a_repeat_is_released: bool,
    /// If a repeated release does not find the field after the deadline, the outcome is reported as
    /// unknown. Off: as lost.
    pub nothing_after_the_deadline_is_unknown: bool,
    /// If a release finds the field of an unclean hold after the deadline, the outcome is reported
    /// as unknown: a late copy may have acquired the lock again after another holder. Off: as
    /// released.
    pub found_after_the_deadline_is_unknown: bool,
    /// After the answer "too late" the client retries. Off: it reports busy.
    pub too_late_is_not_busy: bool,
    /// "Too late" is not a grant. Off: it is handled as a grant.
    pub too_late_is_not_granted: bool,
    /// A client stops believing at its deadline. Off: it believes until it releases.
    pub deadline_ends_belief: bool,
    /// A client stops believing after the answer "not yours". Off: it continues to believe.
    pub not_yours_ends_belief: bool,
    /// Tokens are the server's time. Off: a count stored in the key, which restarts with a new key.
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
