//! Switches off each rule of the two-level protocol. The checker must then find a violation.

use crate::support::{HOLDER, JOB, LONG, NO_MISHAPS, PAIR, PLAIN, SHORT, TOKENS, breaks, with};
use redgrid_models::two_level::properties::*;
use redgrid_models::two_level::{Bounds, Mishaps, Rules, Timing, TwoLevel};

/// Defines one test per rule: its name, the configuration, the rules that are off, the violated
/// property.
macro_rules! without {
    ($($test:ident: $model:expr, [$($rule:ident),+] breaks $property:expr;)+) => {$(
        #[test]
        fn $test() {
            let rules = Rules { $($rule: false,)+ ..Rules::ALL };
            breaks(stringify!($test), TwoLevel { rules, ..$model }, $property);
        }
    )+};
}

/// Different leases, and a hand-over window long enough for two of them.
const MIXED: TwoLevel =
    with(TwoLevel { timing: Timing { handover_window: 2, ..PAIR.timing }, ..PAIR }, &[SHORT, LONG, PLAIN], NO_MISHAPS);
/// Different leases, and a lost connection.
const MIXED_LOSSY: TwoLevel = with(MIXED, &[SHORT, LONG], Mishaps { losses: 1, ..NO_MISHAPS });
/// A takeover, without tokens.
const TAKEOVER_WITHOUT_TOKENS: TwoLevel = with(PAIR, &[SHORT], Mishaps { takeovers: 1, ..NO_MISHAPS });
/// A lost connection.
const LOSSY: TwoLevel = with(PAIR, &[SHORT], Mishaps { losses: 1, ..NO_MISHAPS });
/// Holders that re-enter.
const AGAIN: TwoLevel =
    TwoLevel { bounds: Bounds { requests: &[HOLDER, SHORT], reentry: true, ..PAIR.bounds }, ..PAIR };
/// A job that must run once, and a crash.
const JOBS: TwoLevel = with(PAIR, &[SHORT, JOB], Mishaps { crashes: 1, ..NO_MISHAPS });
/// A takeover, and a hand-over window of two ticks.
const TAKEOVER: TwoLevel = TwoLevel {
    timing: Timing { lease: 5, handover_window: 2, window: 0, tokens: true },
    bounds: Bounds { mishaps: Mishaps { takeovers: 1, acquires: 6, ..NO_MISHAPS }, ..TOKENS.bounds },
    ..TOKENS
};
/// A takeover within a hand-over window of four ticks.
const TAKEOVER_EARLY: TwoLevel =
    TwoLevel { timing: Timing { lease: 2, handover_window: 4, ..TAKEOVER.timing }, ..TAKEOVER };
/// A takeover with a waiter that may cancel.
const TAKEOVER_CANCELLED: TwoLevel =
    TwoLevel { bounds: Bounds { cancels: true, ..TAKEOVER_EARLY.bounds }, ..TAKEOVER_EARLY };
/// A takeover with a lost request or reply.
const TAKEOVER_LOST: TwoLevel =
    with(TAKEOVER_EARLY, &[PLAIN], Mishaps { takeovers: 1, losses: 1, acquires: 5, ..NO_MISHAPS });

without! {
    handed_over_after_the_deadline: MIXED, [hand_over_checks_the_deadline] breaks ENTERED_IS_HELD;
    lease_not_covered: MIXED, [hand_over_covers_the_lease] breaks BELIEVED_IS_HELD;
    lease_not_covered_lets_two_in: MIXED, [hand_over_covers_the_lease] breaks ONE_BELIEVES;
    lengthening_believed_at_once: MIXED, [lengthening_is_confirmed_first] breaks DEADLINE_IN_EXPIRY;
    lengthening_believed_at_once_lets_two_in: MIXED, [lengthening_is_confirmed_first] breaks ONE_BELIEVES;
    preempted_hands_over_after_its_window: TAKEOVER, [window_ends_handover] breaks PREEMPTED_STAYS_BELOW;
    tokens_without_waiting: TOKENS, [token_waits_for_time] breaks TOKEN_IN_TIME;
    tokens_without_waiting_overtaken: TOKENS, [token_waits_for_time] breaks TOKENS_RISE;
    takers_token_at_once: TAKEOVER_EARLY, [taker_waits_a_window] breaks PREEMPTED_STAYS_BELOW;
    unwanted_takeover_freed_at_once: TAKEOVER_CANCELLED, [unwanted_takeover_waits] breaks PREEMPTED_STAYS_BELOW;
    unknown_takeover_freed_at_once: TAKEOVER_LOST, [unknown_takeover_waits] breaks PREEMPTED_STAYS_BELOW;
    handed_over_after_a_notice: TAKEOVER_WITHOUT_TOKENS, [force_ends_hand_over] breaks NOTICE_ENDS_HANDOVER;
    belief_beyond_the_owners_deadline: PAIR, [owner_has_a_deadline] breaks ONE_BELIEVES;
    late_guard_ends_the_next_owner: PAIR, [release_names_its_owner] breaks ONE_BELIEVES;
    first_guard_ends: AGAIN, [last_guard_ends] breaks ONE_BELIEVES;
    reentry_lengthens: AGAIN, [reentry_keeps_the_deadline] breaks DEADLINE_IN_EXPIRY;
    reentry_after_the_deadline: AGAIN, [reentry_ends_with_the_deadline] breaks BELIEVED_IS_HELD;
    grant_goes_with_its_waiter: PAIR, [grant_outlives_its_waiter] breaks NOTHING_THROWN_AWAY;
    watch_goes_with_its_waiter: PAIR, [watch_outlives_its_waiter] breaks NO_LOST_WAKE_UP;
    lost_lengthening_unnoticed: MIXED_LOSSY, [loss_is_handled] breaks LEASE_MOVES;
    release_that_begins_nothing: PAIR, [release_begins_an_attempt] breaks NO_LOST_WAKE_UP;
    adopted_and_released: PAIR, [adoption_takes_the_release_back] breaks BELIEVED_IS_HELD;
    deferred_release_is_replaced: LOSSY, [deferred_release_is_kept] breaks NOTHING_LEFT_BEHIND;
    last_come_first: PAIR, [first_come_first_served] breaks FIRST_COME;
    at_least_forgotten: JOBS, [at_least_keeps_the_name] breaks AT_LEAST;
    at_least_dies_in_a_crash: JOBS, [at_least_is_in_the_lease] breaks AT_LEAST;
}
