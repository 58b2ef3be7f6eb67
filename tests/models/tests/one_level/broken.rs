//! Switches off each rule of the one-level protocol. The checker must then find a violation.

use crate::support::{ALONE, NO_MISHAPS, PAIR, bounded, breaks, timed};
use redgrid_models::one_level::model::Mishaps;
use redgrid_models::one_level::properties::*;
use redgrid_models::one_level::{OneLevel, Rules, Timing};

/// Defines one test per rule: its name, the configuration, the rules that are off, the violated
/// property.
macro_rules! without {
    ($($test:ident: $model:expr, [$($rule:ident),+] breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            let rules = Rules { $($rule: false,)+ ..Rules::ALL };
            breaks(stringify!($test), OneLevel { rules, ..$model }, $property);
        }
    )+};
}

/// The client's estimate of the clock difference is wrong by one tick.
const GAP: OneLevel = timed(ALONE, Timing { offset_gap: 1, ..ALONE.timing });
/// A clock may miss a tick; the margin covers the missed tick.
const SLOW: OneLevel =
    timed(bounded(PAIR, 2, 2, Mishaps { slow_ticks: 1, ..NO_MISHAPS }), Timing { lease: 3, margin: 1, ..PAIR.timing });
/// A clock may count an extra tick.
const FAST: OneLevel = bounded(ALONE, 1, 1, Mishaps { losses: 1, fast_ticks: 1, ..NO_MISHAPS });
/// The key may be deleted.
const DELETED: OneLevel = bounded(PAIR, 2, 2, Mishaps { deletions: 1, ..NO_MISHAPS });

without! {
    acquire_without_not_after: PAIR, [acquire_carries_not_after] breaks NOTHING_LEFT_BEHIND;
    not_after_by_the_upper_bound: GAP, [not_after_uses_the_lower_bound, server_time_decides] breaks NOTHING_LEFT_BEHIND;
    extend_by_the_upper_bound: GAP, [not_after_uses_the_lower_bound, server_time_decides] breaks BELIEVED_IS_HELD;
    one_release_of_an_unclean_hold: PAIR, [unclean_is_released_again] breaks NOTHING_LEFT_BEHIND;
    cleaning_by_a_fast_clock: FAST, [server_time_decides] breaks NOTHING_LEFT_BEHIND;
    rising_by_a_fast_clock: FAST, [server_time_decides] breaks BELIEVED_IS_HELD;
    forgotten_when_sent: PAIR, [forgets_when_answered] breaks NOTHING_LEFT_BEHIND;
    one_field_per_client: PAIR, [field_is_new] breaks BELIEVED_IS_HELD;
    deadline_from_the_reply: PAIR, [deadline_counts_from_sending] breaks BELIEVED_IS_HELD;
    deadline_from_the_reply_lets_two_in: PAIR, [deadline_counts_from_sending] breaks ONE_BELIEVES;
    no_margin: SLOW, [deadline_keeps_a_margin] breaks BELIEVED_IS_HELD;
    acquire_counts: ALONE, [acquire_sets] breaks NOTHING_LEFT_BEHIND;
    acquire_counts_and_release_is_untrue: PAIR, [acquire_sets] breaks RELEASED_IS_TRUE;
    acquire_shortens: PAIR, [acquire_never_shortens] breaks BELIEVED_IS_HELD;
    deadline_moves_at_sending: PAIR, [only_confirmation_raises] breaks BELIEVED_IS_HELD;
    renewal_shortens: PAIR, [renewal_never_shortens] breaks BELIEVED_IS_HELD;
    renewal_creates: PAIR, [renewal_compares] breaks NOTHING_LEFT_BEHIND;
    renewal_takes_over: PAIR, [renewal_compares] breaks BELIEVED_IS_HELD;
    shortening_lowers_on_confirmation: PAIR, [shortening_lowers_first] breaks BELIEVED_IS_HELD;
    extend_without_not_after: ALONE, [extend_carries_not_after] breaks BELIEVED_IS_HELD;
    extend_sent_again: ALONE, [extend_is_sent_once] breaks BELIEVED_IS_HELD;
    any_confirmation_raises: PAIR, [rise_waits_for_the_shortening] breaks BELIEVED_IS_HELD;
    lengthening_that_sets: ALONE, [lengthening_only_lengthens] breaks BELIEVED_IS_HELD;
    nothing_at_first_called_released: PAIR, [nothing_at_first_is_lost] breaks RELEASED_IS_TRUE;
    nothing_at_a_repeat_called_lost: PAIR, [nothing_at_a_repeat_is_released] breaks LOST_IS_TRUE;
    nothing_after_the_deadline_called_lost: PAIR, [nothing_after_the_deadline_is_unknown] breaks LOST_IS_TRUE;
    found_after_the_deadline_called_released: PAIR, [found_after_the_deadline_is_unknown] breaks RELEASED_IS_TRUE;
    too_late_called_busy: PAIR, [too_late_is_not_busy] breaks BUSY_IS_TRUE;
    too_late_taken_for_a_grant: ALONE, [too_late_is_not_granted] breaks BELIEVED_IS_HELD;
    belief_beyond_the_deadline: PAIR, [deadline_ends_belief] breaks ONE_BELIEVES;
    belief_beyond_not_yours: DELETED, [not_yours_ends_belief] breaks NOT_YOURS_ENDS_BELIEF;
    token_counted_in_the_key: PAIR, [token_outlives_the_key] breaks TOKENS_RISE;
}
