//! Invariants of every history.

use std::collections::BTreeMap;

use super::object;
use super::story::{History, Hold, Story};

/// Returns the violations that a history shows, one line each.
pub(crate) fn violations(history: &History) -> Vec<String> {
    let mut found = history.wrong.clone();
    let stories = history.stories();
    for (name, story) in &stories {
        let mut here = tokens_that_fall(&story.holds);
        if history.exclusive {
            here.extend(valid_holds_that_overlap(&story.holds));
            here.extend(reads_beside_writes(&story.reads, &story.holds));
            here.extend(writes_within_conversions(story));
            here.extend(updates_that_are_lost(story, history.counters.get(name).copied()));
            here.extend(
                story.refused.iter().map(|token| format!("the register refused {token}, which was valid locally")),
            );
            here.extend(object::violations(story, !history.calm));
        }
        here.extend(story.starved.iter().map(|task| format!("{task:?} waited and never got it")));
        let lost = &story.released_although_lost;
        here.extend(lost.iter().map(|token| format!("the release of {token} was confirmed although it was lost")));
        here.extend(stale_writes(history.accepted.get(name).map_or(&[], Vec::as_slice)));
        found.extend(here.into_iter().map(|what| format!("{name}: {what}")));
    }
    found
}

/// Returns the number of lost updates of each counter. Only unprotected updates may be lost.
pub(crate) fn lost_updates(history: &History) -> BTreeMap<String, u64> {
    let counted = |(name, story): (String, Story)| {
        let made = story.updates.iter().filter(|update| update.answered.is_some()).count() as u64;
        let kept = history.counters.get(&name).copied().unwrap_or(0);
        (name, made.saturating_sub(kept))
    };
    history.stories().into_iter().map(counted).collect()
}

/// Finds two holds that are valid locally at the same instant.
fn valid_holds_that_overlap(holds: &[Hold]) -> Vec<String> {
    let mut found = Vec::new();
    let mut valid: Vec<(u64, u64, &Hold)> = holds
        .iter()
        .filter_map(|hold| Some((hold.got, hold.valid_until.filter(|until| *until > hold.got)?, hold)))
        .collect();
    valid.sort_by_key(|(from, until, _)| (*from, *until));
    let mut longest: Option<(u64, &Hold)> = None;
    for (from, until, hold) in valid {
        if let Some((until, other)) = longest
            && from < until
        {
            let both = (until - from) / 1000;
            found.push(format!(
                "{:?} with {} and {:?} with {} both valid, for {both} µs",
                other.task, other.token, hold.task, hold.token
            ));
        }
        if longest.is_none_or(|(longest, _)| until > longest) {
            longest = Some((until, hold));
        }
    }
    found
}

/// Finds reads that are valid locally while another task holds the write lock.
fn reads_beside_writes(reads: &[Hold], writes: &[Hold]) -> Vec<String> {
    let validity = |hold: &Hold| hold.valid_until.filter(|until| *until > hold.got).map(|until| (hold.got, until));
    let mut writes: Vec<_> = writes.iter().filter_map(|hold| Some((validity(hold)?, hold))).collect();
    writes.sort_by_key(|(span, _)| *span);
    let mut found = Vec::new();
    for (read, (from, until)) in reads.iter().filter_map(|read| Some((read, validity(read)?))) {
        // Writes do not overlap each other, so their ends are in the order of their beginnings.
        let first = writes.partition_point(|((_, ends), _)| *ends <= from);
        let beside = writes[first..].iter().take_while(|((began, _), _)| *began < until);
        found.extend(beside.map(|((began, ends), write)| {
            let both = (until.min(*ends) - from.max(*began)) / 1000;
            format!("{:?} reads and {:?} with {} writes, for {both} µs", read.task, write.task, write.token)
        }));
    }
    found
}

/// Finds conversions with a write of another task between the two guards. Such a write may replace
/// the values that the converting task has read or written before.
fn writes_within_conversions(story: &Story) -> Vec<String> {
    let was_valid = |hold: &&Hold| hold.valid_until.is_some();
    let mut found = Vec::new();
    for after in story.holds.iter().chain(&story.reads).filter(was_valid) {
        let Some(since) = after.continues else { continue };
        let between = |write: &&Hold| {
            let ends = write.valid_until.unwrap_or(write.got);
            write.task != after.task && write.got < after.got && ends > since
        };
        found.extend(story.holds.iter().filter(was_valid).filter(between).map(|write| {
            format!("{:?} wrote with {} within the conversion of {:?}", write.task, write.token, after.task)
        }));
    }
    found
}

/// Finds tokens that are not above those of all grants before the request, and tokens that were
/// issued twice.
fn tokens_that_fall(holds: &[Hold]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut by_request, mut by_got): (Vec<&Hold>, Vec<&Hold>) = (holds.iter().collect(), holds.iter().collect());
    by_request.sort_by_key(|hold| hold.sent);
    by_got.sort_by_key(|hold| hold.got);
    let mut earlier = by_got.iter().peekable();
    let mut highest = 0;
    for hold in by_request {
        while let Some(before) = earlier.next_if(|before| before.got < hold.sent) {
            highest = highest.max(before.token);
        }
        if hold.token <= highest {
            found.push(format!("{:?} got {} after a grant of {highest}", hold.task, hold.token));
        }
    }
    let mut tokens: Vec<u64> = holds.iter().map(|hold| hold.token).collect();
    tokens.sort_unstable();
    let twice = tokens.windows(2).filter(|pair| pair[0] == pair[1]);
    found.extend(twice.map(|pair| format!("{} was given to two holders", pair[0])));
    found
}

/// Finds protected updates that do not read the previous write, unless an unprotected write came in
/// between.
fn updates_that_are_lost(story: &Story, end: Option<u64>) -> Vec<String> {
    let mut found = Vec::new();
    let (mut safe, loose): (Vec<_>, Vec<_>) = story.updates.iter().partition(|update| update.safe);
    safe.sort_by_key(|update| update.began);
    // An unprotected write may take effect from its sending until its answer.
    let came_between = |value: u64, from: u64, to: u64| {
        let here = |update: &&_| {
            let update: &super::story::Update = update;
            update.sent < to && update.answered.is_none_or(|answered| answered > from)
        };
        loose.iter().filter(|update| here(update)).any(|update| update.read + 1 == value)
    };
    let (mut value, mut since, mut by) = (0, 0, 0);
    for update in safe {
        if update.read != value && !came_between(update.read, since, update.sent) {
            found.push(format!("{} wrote {value}, and {} read {}", by, update.token, update.read));
        }
        (value, since, by) = (update.read + 1, update.began, update.token);
    }
    let end = end.unwrap_or(0);
    if end != value && !came_between(end, since, u64::MAX) {
        found.push(format!("{by} wrote {value}, and at the end it was {end}"));
    }
    found
}

/// Finds values that the register did not accept one by one, in the order of the tokens.
fn stale_writes(accepted: &[(u64, u64)]) -> Vec<String> {
    let fall = accepted.windows(2).filter(|pair| pair[1].0 < pair[0].0);
    let mut found: Vec<String> =
        fall.map(|pair| format!("the register took {} after {}", pair[1].0, pair[0].0)).collect();
    let skips = accepted.iter().zip(1..).filter(|((_, value), expected)| value != expected);
    found.extend(
        skips.map(|((token, value), expected)| format!("{token} wrote {value} for {expected} in the register")),
    );
    found
}
