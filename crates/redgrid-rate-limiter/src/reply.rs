//! A request to a limiter's script for several callers, and its reply.

use std::time::Duration;

use redgrid_core::{IdempotentRequest, ServerError};

/// The part of one caller in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermitRequest {
    pub(crate) permits: u64,
    /// The permits may be taken this long before they are free, in whole milliseconds.
    pub(crate) reserve_ahead: Duration,
    /// Whether the caller does not wait. If its permits are not available, the callers behind it
    /// may still get theirs.
    pub(crate) try_only: bool,
}

/// The part of one caller in a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The permits are taken and may be used after a time. Entries are numbered from 1.
    Taken { entry: usize, after: Duration },
    /// The permits are not available yet.
    Later,
    /// More permits than the limit.
    TooMany,
}

/// The reply for all callers of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimiterReply {
    /// The id of the request, from which the ids of its entries are made.
    pub(crate) id: [u8; 16],
    /// The maximum number of permits at once: the rate, or the burst.
    pub(crate) limit: u64,
    /// Whether the log had more expired entries than one call removes: the same request then finds
    /// more permits.
    pub(crate) ask_again: bool,
    /// When to send the next request for the first waiting caller.
    pub(crate) next: Duration,
    /// The number of free permits before the request; below 0 after the rate was lowered.
    pub(crate) free: i64,
    /// The scores of the new entries.
    pub(crate) scores: Vec<String>,
    pub(crate) verdicts: Vec<Verdict>,
}

/// Adds the callers to a request.
pub(crate) fn with_callers(request: IdempotentRequest, callers: &[PermitRequest]) -> IdempotentRequest {
    callers.iter().fold(request, |request, caller| {
        let reserve_ahead = i64::try_from(caller.reserve_ahead.as_millis()).unwrap_or(i64::MAX);
        request.arg(caller.permits.to_string()).int(reserve_ahead).int((!caller.try_only).into())
    })
}

impl LimiterReply {
    /// Reads the reply to a request for this many callers; `None` if no rate is set.
    pub(crate) fn read(parts: &[String], callers: usize) -> Result<Option<LimiterReply>, ServerError> {
        if parts.first().is_some_and(|status| status == "0") {
            return Ok(None);
        }
        let read = || {
            let [status, limit, ask_again, next, free, scores, verdicts @ ..] = parts else { return None };
            (status == "1" && verdicts.len() == callers).then_some(())?;
            let verdicts = verdicts.iter().map(|text| verdict(text)).collect::<Option<_>>()?;
            let (limit, free) = (limit.parse().ok()?, free.parse::<f64>().ok()? as i64);
            let scores = scores.split_whitespace().map(str::to_owned).collect();
            let (ask_again, next) = (ask_again == "1", micros(next)?);
            Some(LimiterReply { id: [0; 16], limit, ask_again, next, free, scores, verdicts })
        };
        read().map(Some).ok_or_else(|| unexpected(parts))
    }
}

/// Returns the error of a reply that is not one of this crate's scripts.
pub(crate) fn unexpected(parts: &[String]) -> ServerError {
    ServerError::Decode { expected: "the reply of a limiter's script", got: format!("{parts:?}") }
}

fn verdict(text: &str) -> Option<Verdict> {
    let mut words = text.split(' ');
    match words.next()? {
        "t" => Some(Verdict::TooMany),
        "w" => Some(Verdict::Later),
        "g" => Some(Verdict::Taken { entry: words.next()?.parse().ok()?, after: micros(words.next()?)? }),
        _ => None,
    }
}

fn micros(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_of_the_scripts_is_read() {
        let read = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| part.to_string()).collect();
            LimiterReply::read(&parts, parts.len().saturating_sub(6))
        };
        assert_eq!(read(&["0"]).unwrap(), None);
        let reply = read(&["1", "10", "1", "1500", "-2", "17.5 18", "g 1 0", "g 2 250", "t", "w"]).unwrap().unwrap();
        assert_eq!((reply.limit, reply.ask_again, reply.next), (10, true, Duration::from_micros(1500)));
        assert_eq!((reply.free, reply.scores), (-2, vec!["17.5".to_owned(), "18".to_owned()]));
        let taken = |entry, micros| Verdict::Taken { entry, after: Duration::from_micros(micros) };
        assert_eq!(reply.verdicts, [taken(1, 0), taken(2, 250), Verdict::TooMany, Verdict::Later]);
        for bad in [&["1"][..], &["2", "1", "0", "0", "0", ""], &["1", "1", "0", "0", "0", "", "x"]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_reply_has_a_verdict_for_each_caller() {
        let parts = ["1", "10", "0", "0", "3", "", "w", "w"].map(str::to_owned);
        assert_eq!(LimiterReply::read(&parts, 2).unwrap().unwrap().verdicts.len(), 2);
        assert!(LimiterReply::read(&parts, 1).is_err() && LimiterReply::read(&parts, 3).is_err());
    }
}
