//! Limits for the lists and texts of a report, so that a forged one takes no more memory and time
//! than a real one.

use redgrid_core::report::ClientReport;

/// The most holds of a report. Each of these limits is also that of a client.
const MAX_HELD: usize = 500;

/// The most names with waiting tasks.
const MAX_WAITS: usize = 200;

/// The most names with contention.
const MAX_CONTENTION: usize = 20;

/// The most events.
const MAX_EVENTS: usize = 64;

/// The longest name of an object, in bytes. An entry with a longer one is left out.
const MAX_NAME: usize = 1_024;

/// The longest text of any other kind, in bytes. A longer one is cut.
const MAX_TEXT: usize = 255;

/// The longest reason of an event: 200 characters of up to 4 bytes.
const MAX_DETAIL: usize = 800;

/// Cuts what is longer than a client makes it.
pub(crate) fn limited(mut report: ClientReport) -> ClientReport {
    let mut is_cut = keep(&mut report.held, MAX_HELD, |held| &held.name);
    is_cut |= keep(&mut report.waits, MAX_WAITS, |wait| &wait.name);
    is_cut |= keep(&mut report.contention, MAX_CONTENTION, |name| &name.name);
    is_cut |= keep(&mut report.events, MAX_EVENTS, |event| &event.name);
    report.is_truncated |= is_cut;
    for text in [&mut report.host, &mut report.program, &mut report.client_name, &mut report.version] {
        cut(text, MAX_TEXT);
    }
    for held in &mut report.held {
        cut(&mut held.kind, MAX_TEXT);
        if let Some(label) = &mut held.label {
            cut(label, MAX_TEXT);
        }
    }
    for wait in &mut report.waits {
        cut(&mut wait.kind, MAX_TEXT);
    }
    for name in &mut report.contention {
        cut(&mut name.kind, MAX_TEXT);
    }
    for event in &mut report.events {
        cut(&mut event.what, MAX_TEXT);
        cut(&mut event.detail, MAX_DETAIL);
    }
    report
}

/// Keeps the first `most` entries with names that are not too long. Returns whether some were left
/// out.
fn keep<T>(list: &mut Vec<T>, most: usize, name: impl Fn(&T) -> &String) -> bool {
    let before = list.len();
    list.retain(|entry| name(entry).len() <= MAX_NAME);
    list.truncate(most);
    // The memory of entries that are left out is released.
    list.shrink_to_fit();
    list.len() < before
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use redgrid_core::report::{HeldReport, parse_answer};

    use super::*;

    #[test]
    fn a_forged_report_is_cut_to_the_size_of_a_real_one() {
        let many = format!("{{\"id\":\"a\",\"held\":[{}{{}}],\"host\":\"{}\"}}", "{},".repeat(20_000), "ü".repeat(200));
        let report = limited(parse_answer(many.as_bytes()).unwrap());
        assert_eq!((report.held.len(), report.held.capacity(), report.is_truncated), (MAX_HELD, MAX_HELD, true));
        assert_eq!(report.host, "ü".repeat(127));
        let held = |name: String| {
            let mut held = HeldReport::default();
            (held.name, held.kind) = (name, "x".repeat(60_000));
            held
        };
        let mut long = ClientReport::default();
        long.held = vec![held("x".repeat(MAX_NAME + 1)), held("x".repeat(MAX_NAME))];
        let long = limited(long);
        assert_eq!((long.held.len(), long.held[0].kind.len(), long.is_truncated), (1, MAX_TEXT, true));
    }

    #[test]
    fn a_real_report_stays_as_it_is() {
        let mut report = ClientReport::default();
        report.held = vec![HeldReport::default(); MAX_HELD];
        "web-1".clone_into(&mut report.host);
        assert_eq!(limited(report.clone()), report);
    }
}
