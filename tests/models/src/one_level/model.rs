//! The whole model: the state, its actions, and its transitions.

use stateright::{Model, Property};

use super::client::{Client, Report, Setup};
use super::hold::{Fate, Phase};
use super::network::{Past, Reply};
use super::properties;
use super::server::{Field, Order, Server};
use super::{Rules, Timing};

/// One configuration of the model.
#[derive(Clone, Copy, Debug)]
pub struct OneLevel {
    /// The rules of clients and scripts.
    pub rules: Rules,
    /// The lengths of leases and windows.
    pub timing: Timing,
    /// The limits of a run.
    pub bounds: Bounds,
}

/// The limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bounds {
    /// Number of clients.
    pub clients: u8,
    /// Whether clients renew their leases.
    pub renewals: bool,
    /// Unanswered requests per connection; the retry after "too late" may exceed it by one.
    pub in_flight: u8,
    /// The total number of faults.
    pub mishaps: Mishaps,
    /// Attempts per client, including those that are still being released.
    pub holds: u8,
    /// Whether bytes of lost connections that have no further effect are removed from the state.
    pub drop_idle_bytes: bool,
}

/// How often each fault may still occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mishaps {
    /// Connections lost: each loses a request or a reply, or several.
    pub losses: u8,
    /// Clients that crash.
    pub crashes: u8,
    /// Ticks that some client's clock misses.
    pub slow_ticks: u8,
    /// Ticks that a client's clock misses.
    pub fast_ticks: u8,
    /// Extra ticks that a client's clock counts.
    pub deletions: u8,
    /// Attempts (not a fault); [`u8::MAX`] means any number.
    pub attempts: u8,
}

/// One state. The clients are sorted, so that states that differ only in the numbers of the clients
/// are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The server.
    pub server: Server,
    /// The clients.
    pub clients: Vec<Client>,
    /// The faults that may still occur.
    pub left: Mishaps,
    /// The highest token of all grants in which a client believed.
    pub highest_token: u8,
    /// The violations so far that are visible only in an event.
    pub flaws: Flaws,
    /// Whether an administrator deleted the key of a holder.
    pub key_deleted: bool,
}

/// Violations that are visible in an event and not in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flaws {
    /// "Lost" was reported, although the hold still lasted, or the client's own release had ended
    /// it.
    pub untrue_lost: bool,
    /// "Released" was reported, although the client's release did not end the hold.
    pub untrue_released: bool,
    /// "Busy" was reported without such an answer of the server.
    pub untrue_busy: bool,
    /// A client believed in a grant whose token was not higher than all earlier ones.
    pub token_not_above: bool,
    /// A client continued to believe after the answer "not yours".
    pub ignored_not_yours: bool,
}

/// All possible steps. The first number is the index of a client, the second that of a hold or a
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client begins an attempt.
    Acquire(u8),
    /// A client sends another copy of an acquire that has an unknown outcome.
    AcquireAgain(u8),
    /// A client releases its current attempt, whether held or not.
    Release(u8),
    /// A client sends the release of a hold again.
    ReleaseAgain(u8, u8),
    /// A client renews its lease.
    Renew(u8),
    /// A client extends its lease to this length.
    Extend(u8, u8),
    /// A client sends an unanswered extend again.
    ExtendAgain(u8),
    /// The server executes the oldest request of a client's living connection.
    Execute(u8),
    /// The server executes the oldest request of one of a client's lost connections.
    ExecuteLate(u8, u8),
    /// A client reads the oldest reply.
    ReadReply(u8),
    /// A client's connection is lost.
    Lose(u8),
    /// A client crashes.
    Crash(u8),
    /// An administrator deletes the key.
    Delete,
    /// Time passes for the server and all clients.
    Tick,
    /// Time passes, but one client's clock misses the tick.
    SlowTick(u8),
    /// One client's clock counts a tick that did not pass.
    FastTick(u8),
}

impl Model for OneLevel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            server: Server::default(),
            clients: vec![Client::default(); usize::from(self.bounds.clients)],
            left: self.bounds.mishaps,
            highest_token: 0,
            flaws: Flaws::default(),
            key_deleted: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, client) in (0..).zip(&state.clients) {
            if client.crashed.is_none() {
                self.own_actions(state, client, at, actions);
                self.fault_actions(state, client, at, actions);
            }
            if !client.link.requests.is_empty() {
                actions.push(Action::Execute(at));
            }
            actions.extend((0..client.link.late.len()).map(|late| Action::ExecuteLate(at, small(late))));
            if !client.link.replies.is_empty() {
                actions.push(Action::ReadReply(at));
            }
        }
        if state.left.deletions > 0 && state.server.key.is_some() {
            actions.push(Action::Delete);
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        self.note_the_end_of_holds(last, &mut state, action);
        Some(state.into_canonical(self))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

impl OneLevel {
    /// Returns the part of this configuration that clients use.
    pub fn setup(&self) -> Setup {
        Setup { rules: self.rules, timing: self.timing }
    }

    /// Adds the actions that a client may take by itself.
    fn own_actions(&self, state: &State, client: &Client, at: u8, actions: &mut Vec<Action>) {
        for hold in (0..client.holds.len()).filter(|&hold| client.owes_release(hold)) {
            actions.push(Action::ReleaseAgain(at, small(hold)));
        }
        if client.link.in_flight() >= usize::from(self.bounds.in_flight) {
            return;
        }
        let Some(hold) = client.current() else {
            if client.holds.len() < usize::from(self.bounds.holds) && state.left.attempts > 0 {
                actions.push(Action::Acquire(at));
            }
            return;
        };
        actions.push(Action::Release(at));
        if hold.phase == Phase::Unknown {
            actions.push(Action::AcquireAgain(at));
        }
        if hold.extend_again.is_some() {
            actions.push(Action::ExtendAgain(at));
        }
        if client.believes(&self.rules) {
            if self.bounds.renewals {
                actions.push(Action::Renew(at));
            }
            if !client.link.extends(hold.serial) {
                actions.extend(self.timing.extends.iter().map(|&lease| Action::Extend(at, lease)));
            }
        }
    }

    /// Adds the faults that may affect a client.
    fn fault_actions(&self, state: &State, client: &Client, at: u8, actions: &mut Vec<Action>) {
        if state.left.losses > 0 && client.link.in_flight() > 0 {
            actions.push(Action::Lose(at));
        }
        if client.holds.is_empty() {
            return; // such a client has left nothing on the server, and its clock has no effect
        }
        if state.left.crashes > 0 {
            actions.push(Action::Crash(at));
        }
        if state.left.slow_ticks > 0 {
            actions.push(Action::SlowTick(at));
        }
        if state.left.fast_ticks > 0 {
            actions.push(Action::FastTick(at));
        }
    }

    fn apply(&self, state: &mut State, action: Action) {
        let setup = self.setup();
        match action {
            Action::Acquire(at) => {
                if state.left.attempts != u8::MAX {
                    state.left.attempts -= 1;
                }
                let serial = if self.rules.field_is_new { state.unused_serial(at) } else { 0 };
                state.client(at).acquire(&setup, serial);
            }
            Action::AcquireAgain(at) => state.client(at).acquire_again(&setup),
            Action::Release(at) => state.client(at).release(&setup),
            Action::ReleaseAgain(at, hold) => state.client(at).release_again(&setup, hold.into()),
            Action::Renew(at) => state.client(at).renew(&setup),
            Action::Extend(at, lease) => state.client(at).extend(&setup, lease),
            Action::ExtendAgain(at) => state.client(at).extend_again(&setup),
            Action::Execute(at) => self.execute(state, at),
            Action::ExecuteLate(at, late) => {
                let request = state.client(at).link.arrive_late(late.into());
                let field = Field { client: at, serial: request.serial };
                state.server.execute(&self.rules, field, request.order);
            }
            Action::ReadReply(at) => {
                if let Some(report) = state.client(at).read_reply(&setup) {
                    state.note(report);
                }
            }
            Action::Lose(at) => {
                state.left.losses -= 1;
                state.client(at).lose_connection(&setup);
            }
            Action::Crash(at) => {
                state.left.crashes -= 1;
                state.client(at).crash(&self.rules);
            }
            Action::Delete => {
                state.left.deletions -= 1;
                state.key_deleted = true;
                state.server.delete(&self.rules);
            }
            Action::Tick => self.tick(state, None),
            Action::SlowTick(at) => {
                state.left.slow_ticks -= 1;
                self.tick(state, Some(at));
            }
            Action::FastTick(at) => {
                state.left.fast_ticks -= 1;
                state.client(at).client_tick();
            }
        }
    }

    fn execute(&self, state: &mut State, at: u8) {
        let call = state.client(at).link.requests.remove(0);
        let serial = call.request.serial;
        let answer = state.server.execute(&self.rules, Field { client: at, serial }, call.request.order);
        let client = state.client(at);
        let past = client.holds.iter().find(|hold| hold.serial == serial).map_or(Past::default(), |hold| Past {
            acquires: !hold.acquires_refused_from.server.is_ahead(),
            extends: !hold.extends_refused_from.server.is_ahead(),
        });
        client.link.replies.push(Reply { call, answer, past });
    }

    fn tick(&self, state: &mut State, unseen_by: Option<u8>) {
        state.server.tick(&self.rules);
        for (at, client) in (0..).zip(&mut state.clients) {
            client.server_tick();
            if unseen_by != Some(at) {
                client.client_tick();
            }
        }
    }

    /// Records the end of a hold on the server in the hold of a client that believes. Only the
    /// model has this information.
    fn note_the_end_of_holds(&self, last: &State, state: &mut State, action: Action) {
        let Some(gone) = last.server.holder().filter(|&field| state.server.holder() != Some(field)) else { return };
        let released = match action {
            Action::Execute(at) => at == gone.client && is_release(last.head(at)),
            Action::ExecuteLate(at, late) => at == gone.client && is_release(last.late_head(at, late)),
            _ => false,
        };
        for hold in &mut state.client(gone.client).holds {
            if hold.serial == gone.serial && hold.fate == Fate::Ours {
                hold.fate = if released { Fate::Released } else { Fate::Ended };
            }
        }
    }
}

impl State {
    /// Returns the client with this index.
    fn client(&mut self, at: u8) -> &mut Client {
        &mut self.clients[usize::from(at)]
    }

    fn head(&self, at: u8) -> Order {
        self.clients[usize::from(at)].link.requests[0].request.order
    }

    fn late_head(&self, at: u8, late: u8) -> Order {
        self.clients[usize::from(at)].link.late[usize::from(late)][0].order
    }

    /// Returns a field number of this client that neither the server nor any bytes in flight
    /// contain. It is equivalent to a new number.
    fn unused_serial(&self, at: u8) -> u8 {
        let client = &self.clients[usize::from(at)];
        let held = self.server.holder().filter(|field| field.client == at).map(|field| field.serial);
        let late = client.link.late.iter().flatten();
        let used = |serial| {
            held == Some(serial)
                || client.knows(serial)
                || client.link.unanswered().any(|call| call.request.serial == serial)
                || late.clone().any(|request| request.serial == serial)
        };
        (0..).find(|&serial| !used(serial)).expect("fewer are in use than a byte counts")
    }

    fn note(&mut self, report: Report) {
        let flaws = &mut self.flaws;
        match report {
            Report::Granted { token } => {
                flaws.token_not_above |= token <= self.highest_token;
                self.highest_token = self.highest_token.max(token);
            }
            Report::Busy { answered } => flaws.untrue_busy |= !answered,
            Report::Released(fate) => flaws.untrue_released |= fate != Fate::Released,
            Report::Lost(fate) => flaws.untrue_lost |= fate != Fate::Ended,
            Report::NotYours { believes } => flaws.ignored_not_yours |= believes,
        }
    }
}

fn is_release(order: Order) -> bool {
    order == Order::Release
}

fn small(number: usize) -> u8 {
    u8::try_from(number).expect("fits a byte")
}
