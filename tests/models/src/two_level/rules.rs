//! The rules of the second level, each with a switch.

/// What tables of holds keep to. All on is the design; each one off is a mistake somebody could
/// make.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A server lease whose deadline passed is not handed on. Off: it is, as long as the hand-over window lasts.
    pub hand_over_looks_at_the_deadline: bool,
    /// The next owner's lease must end within the server lease's. Off: it gets its lease whatever is
    /// left.
    pub hand_over_covers_the_lease: bool,
    /// A lease that is not covered is lengthened first. Off: the next owner believes as soon as
    /// that was asked for.
    pub lengthening_is_confirmed_first: bool,
    /// Nothing is handed on after the hand-over window. Off: as long as the server lease lasts.
    pub window_ends_handover: bool,
    /// The k-th token waits until k is less than the time since the grant was known. Off: it is
    /// given at once.
    pub token_waits_for_time: bool,
    /// A taker's token is read one hand-over window after the theft. Off: the theft's own time is the token.
    pub taker_waits_a_window: bool,
    /// A theft that nobody wants any more keeps the name for its hand-over window. Off: the name is freed at
    /// once.
    pub unwanted_theft_waits: bool,
    /// A theft of unknown outcome is given back a hand-over window after its last copy was refused. Off: at
    /// once, too.
    pub unsure_theft_waits: bool,
    /// After a notice of force nothing is handed on. Off: the hand-over window goes on.
    pub force_ends_hand_over: bool,
    /// An owner believes until its own deadline, and the table enforces it. Off: until its guard
    /// goes.
    pub owner_has_a_deadline: bool,
    /// A guard lets go only of the ownership it came from. Off: of whatever there is.
    pub release_names_its_owner: bool,
    /// An ownership ends with its last guard. Off: with the first that goes.
    pub last_guard_ends: bool,
    /// Who enters again has the deadline it had. Off: its whole lease from now.
    pub reentry_keeps_the_deadline: bool,
    /// Nobody enters again after its deadline. Off: the ownership goes on for it.
    pub reentry_ends_with_the_deadline: bool,
    /// A grant goes to the first who waits, whoever asked. Off: it is given back when its asker
    /// left.
    pub grant_outlives_its_asker: bool,
    /// The watch belongs to the table. Off: it goes with the waiter that began it.
    pub watch_outlives_its_asker: bool,
    /// A request that is lost is followed by another look at the server lease. Off: whoever waits for its
    /// reply waits on.
    pub loss_is_looked_at: bool,
    /// A release that was answered begins an attempt for those who came meanwhile. Off: it ends,
    /// and that is all.
    pub release_begins_an_attempt: bool,
    /// Who adopts a server lease takes back its queued release. Off: both go on.
    pub adoption_takes_the_release_back: bool,
    /// An attempt of unknown outcome is kept until nothing of it can be left. Off: the next attempt
    /// takes its place.
    pub unsettled_is_kept: bool,
    /// Who came first enters first. Off: who came last.
    pub first_come_first_served: bool,
    /// Nothing is handed on or freed before `at_least` is over. Off: when the owner is done.
    pub at_least_keeps_the_name: bool,
    /// The key's lease covers `at_least`. Off: only the lease, and a crash frees the name early.
    pub at_least_is_in_the_lease: bool,
}

impl Rules {
    /// The design: every rule on.
    pub const ALL: Self = Self {
        hand_over_looks_at_the_deadline: true,
        hand_over_covers_the_lease: true,
        lengthening_is_confirmed_first: true,
        window_ends_handover: true,
        token_waits_for_time: true,
        taker_waits_a_window: true,
        unwanted_theft_waits: true,
        unsure_theft_waits: true,
        force_ends_hand_over: true,
        owner_has_a_deadline: true,
        release_names_its_owner: true,
        last_guard_ends: true,
        reentry_keeps_the_deadline: true,
        reentry_ends_with_the_deadline: true,
        grant_outlives_its_asker: true,
        watch_outlives_its_asker: true,
        loss_is_looked_at: true,
        release_begins_an_attempt: true,
        adoption_takes_the_release_back: true,
        unsettled_is_kept: true,
        first_come_first_served: true,
        at_least_keeps_the_name: true,
        at_least_is_in_the_lease: true,
    };
}
