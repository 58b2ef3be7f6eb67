//! Merges states that differ only in names, or in parts without further effect.
//!
//! Names are the numbers of clients and attempts, and the values of tokens. Without merging, the
//! exploration is about ten times larger. Merged states behave alike under every action.

use super::client::Client;
use super::hold::{Hold, Phase};
use super::network::{Call, Memo, Request};
use super::server::{Answer, Field, Order};
use super::{OneLevel, Rules, State};

impl State {
    /// Returns the canonical form of this state.
    pub(super) fn into_canonical(mut self, model: &OneLevel) -> Self {
        let rules = &model.rules;
        for at in 0..self.clients.len() {
            let held = self.held_by(at);
            let client = &mut self.clients[at];
            forget_unawaited(client);
            if model.bounds.drop_idle_bytes {
                drop_idle_bytes(rules, client, held);
            }
            client.holds.iter_mut().for_each(Hold::tidy);
            client.holds.sort_unstable();
            // If fields are reused, their numbers matter. If tokens can restart, their values
            // matter.
            if rules.field_is_new {
                let held = number_attempts(client, held);
                if let (Some(key), Some(serial)) = (&mut self.server.key, held) {
                    key.holder.serial = serial;
                }
            }
        }
        self.sort_clients();
        if rules.token_outlives_the_key {
            self.number_tokens();
        }
        self
    }

    /// Returns the attempt of this client that holds the key.
    fn held_by(&self, at: usize) -> Option<u8> {
        self.server.holder().filter(|field| usize::from(field.client) == at).map(|field| field.serial)
    }

    fn sort_clients(&mut self) {
        let mut order: Vec<usize> = (0..self.clients.len()).collect();
        order.sort_by(|&a, &b| (&self.clients[a], self.held_by(a)).cmp(&(&self.clients[b], self.held_by(b))));
        if order.is_sorted() {
            return;
        }
        if let Some(key) = &mut self.server.key {
            let place = order.iter().position(|&at| at == usize::from(key.holder.client)).expect("a permutation");
            key.holder = Field { client: u8::try_from(place).expect("fits a byte"), ..key.holder };
        }
        self.clients = order.into_iter().map(|at| std::mem::take(&mut self.clients[at])).collect();
    }

    /// Numbers the tokens that may still be compared from 0, in their order.
    fn number_tokens(&mut self) {
        let mut tokens = vec![0, self.server.token, self.highest_token];
        self.each_token(|token| tokens.push(*token));
        tokens.sort_unstable();
        tokens.dedup();
        let rank = |token: u8| u8::try_from(tokens.partition_point(|&other| other < token)).expect("fits a byte");
        self.server.token = rank(self.server.token);
        self.highest_token = rank(self.highest_token);
        self.each_token(|token| *token = rank(*token));
    }

    fn each_token(&mut self, mut visit: impl FnMut(&mut u8)) {
        for reply in self.clients.iter_mut().flat_map(|client| &mut client.link.replies) {
            if let Answer::Granted { token } = &mut reply.answer {
                visit(token);
            }
        }
    }
}

/// Clears the client's notes on calls if their answers have no effect.
fn forget_unawaited(client: &mut Client) {
    let Client { holds, link, .. } = client;
    let waits = |call: &Call| {
        let wanted = match call.request.order {
            Order::Acquire { .. } => Phase::Acquiring,
            Order::Renew { .. } | Order::Extend { .. } => Phase::Held,
            Order::Release => Phase::Releasing,
        };
        holds.iter().any(|hold| hold.serial == call.request.serial && hold.phase == wanted)
    };
    for call in &mut link.requests {
        if !waits(call) {
            // The instant of refusal still matters: if the copy is lost, the release waits for this
            // instant.
            call.memo = Memo { refused_from: call.memo.refused_from, ..Memo::default() };
        }
    }
    for reply in &mut link.replies {
        if !waits(&reply.call) {
            reply.call.memo = Memo { refused_from: reply.call.memo.refused_from, ..Memo::default() };
            reply.answer = Answer::TooLate;
        }
    }
}

/// Removes late requests that can never have an effect: refused copies, and renewals and releases
/// of a field that cannot be in the key again.
fn drop_idle_bytes(rules: &Rules, client: &mut Client, held: Option<u8>) {
    let is_refused = |request: &Request| match request.order {
        Order::Acquire { refused_from, .. } | Order::Extend { refused_from, .. } => !refused_from.is_ahead(),
        Order::Renew { .. } | Order::Release => false,
    };
    for requests in &mut client.link.late {
        requests.retain(|request| !is_refused(request));
    }
    if rules.field_is_new && rules.renewal_compares {
        let Client { holds, link, .. } = client;
        let mut alive: Vec<u8> = held.into_iter().collect();
        alive.extend(
            holds.iter().filter(|hold| matches!(hold.phase, Phase::Acquiring | Phase::Unknown)).map(|hold| hold.serial),
        );
        let in_flight = link.requests.iter().map(|call| &call.request).chain(link.late.iter().flatten());
        alive.extend(
            in_flight.filter(|request| matches!(request.order, Order::Acquire { .. })).map(|request| request.serial),
        );
        for requests in &mut link.late {
            requests.retain(|request| alive.contains(&request.serial));
        }
    }
    client.link.late.retain(|requests| !requests.is_empty());
    client.link.late.sort_unstable();
}

/// Numbers the attempts from 0 in the order of their appearance, and returns the new number of the
/// attempt in the key.
fn number_attempts(client: &mut Client, held: Option<u8>) -> Option<u8> {
    let mut met: Vec<u8> = Vec::new();
    let mut number = |serial: u8| {
        let place = met.iter().position(|&other| other == serial).unwrap_or_else(|| {
            met.push(serial);
            met.len() - 1
        });
        u8::try_from(place).expect("fits a byte")
    };
    let Client { holds, link, .. } = client;
    for hold in holds {
        hold.serial = number(hold.serial);
    }
    let held = held.map(&mut number);
    for reply in &mut link.replies {
        reply.call.request.serial = number(reply.call.request.serial);
    }
    for call in &mut link.requests {
        call.request.serial = number(call.request.serial);
    }
    for request in link.late.iter_mut().flatten() {
        request.serial = number(request.serial);
    }
    link.late.sort_unstable();
    held
}
