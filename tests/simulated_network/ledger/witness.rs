//! Checks each call when it is sent, executed and answered.

use std::time::Duration;

use redgrid_core::{Code, Reply, ServerError};
use redgrid_tests::simulated_network::{Call, Witness};
use tokio::time::Instant;

use super::{Ledger, Line, ReportedGrant};

const RELEASES: [&str; 3] = ["lock/release", "lock/release-yielding", "lock/retain"];

impl Witness for Ledger {
    fn submitted(&self, client: usize, call: &Call, _now: Instant) {
        let mut books = self.books();
        books.submitted += 1;
        books.seen.calls += 1;
        books.trace(Line::Sends(client, call.clone()));
        if RELEASES.contains(&call.name.as_str()) {
            books.check_release(client, call);
        }
        let fitted =
            if call.name == "lock/renew" { &call.args[..] } else { call.field().map_or(&[][..], std::slice::from_ref) };
        if matches!(call.name.as_str(), "lock/renew" | "lock/extend") {
            for field in fitted {
                if let Some(reported) = books.reported.get_mut(field) {
                    reported.refitted = true;
                }
            }
        }
    }

    fn executed(&self, client: usize, call: &Call, answer: &Result<Reply, ServerError>, micros: u64) {
        let mut books = self.books();
        books.trace(Line::Executes(micros, client, call.clone(), answer.clone()));
        if let Err(ServerError::Refused { code: Code::Other, message }) = answer {
            books.violation(format!("{}: {message}", call.name));
        }
        books.check_taken(call, answer);
        if call.name == "lock/release"
            && matches!(answer, Ok(Reply::Int(1..)))
            && books.released.contains_key(&call.args[0])
        {
            books.seen.late_releases += 1;
        }
        let Some(token) = granted(call, answer) else { return };
        let restarts = books.restarts.clone();
        // A late copy of the retaining holder's own acquire is no violation, because the name stays
        // taken by that holder.
        let own = call.field().and_then(|field| books.reported.get(field)).map(|reported| reported.token);
        let name = books.names.entry(call.keys[0].clone()).or_default();
        let former = name.holder.replace(call.args[0].clone());
        if call.name == "lock/takeover" {
            // The takeover notifies the client of the former holder. That client also ignores a
            // later grant to the same holder by a late copy of the acquire.
            name.preempted.extend(former);
        }
        name.grants.insert(token);
        if call.name == "lock/takeover" {
            name.forced.push(micros);
        }
        if let Some((since, until)) = name.keep {
            let broken = name.forced.iter().chain(&restarts).any(|at| *at > since);
            if token > since && token < until && !broken && own.is_none_or(|own| own > since) {
                let key = &call.keys[0];
                books.violation(format!("{key:?}: granted at {token}, to be kept until {until} since {since}"));
            }
        }
    }

    fn delivered(&self, client: usize, call: &Call, answer: &Result<Reply, ServerError>, sent: Instant, now: Instant) {
        let mut books = self.books();
        books.trace(Line::Receives(client, call.clone(), answer.clone()));
        if answer.as_ref().is_err_and(ServerError::is_unknown) {
            books.seen.unanswered += 1;
        }
        let is_release = RELEASES.contains(&call.name.as_str());
        if let (true, Err(ServerError::Refused { code, .. }), Some(field)) = (is_release, answer, call.field())
            && !code.is_passing()
        {
            books.left.insert(field.clone());
        }
        if let (true, Ok(_), Some(field)) = (is_release, answer, call.field()) {
            books.released.entry(field.clone()).or_insert(now);
        }
        // A retained lock stays on the server, and no task owns it.
        if let ("lock/retain", Some(field)) = (call.name.as_str(), call.field()) {
            books.left.insert(field.clone());
        }
        if let (Some(token), Some(field)) = (granted(call, answer), call.field()) {
            let lease = call.int(1);
            let lasts = Duration::from_millis(lease.unsigned_abs());
            let in_time = now < sent + lasts.mul_f64(0.9).saturating_sub(Duration::from_millis(25));
            // A takeover belongs to one acquire only, even if a later request reads its token
            // again.
            let by_force = call.name == "lock/takeover" || books.reported.contains_key(field);
            let (key, for_anybody) = (call.keys[0].clone(), in_time && !by_force);
            books.reported.insert(field.clone(), ReportedGrant { key, token, at: now, for_anybody, refitted: false });
        }
    }

    fn restarted(&self, micros: u64) {
        let mut books = self.books();
        books.note(format!("    server {micros}: starts again, empty"));
        books.seen.restarts += 1;
        books.restarts.push(micros);
    }
}

/// Returns the server's time of a grant.
fn granted(call: &Call, answer: &Result<Reply, ServerError>) -> Option<u64> {
    if !matches!(call.name.as_str(), "lock/acquire" | "lock/takeover") {
        return None;
    }
    match answer.clone().ok()? {
        Reply::Int(time) => u64::try_from(time).ok(),
        reply => reply.into_typed::<(i64, u64, i64)>().ok().filter(|reply| reply.0 == 1).map(|reply| reply.1),
    }
}
