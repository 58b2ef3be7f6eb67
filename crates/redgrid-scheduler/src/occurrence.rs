//! The times at which a pattern is due in a zone.
//!
//! The clock of a zone runs evenly in each of its periods. In a period, the matching times are
//! those that the clock shows. At the beginning of a period, where the clock has jumped, the rule
//! of Vixie cron holds instead. It concerns fixed patterns and jumps of less than three hours:
//!
//! - If the clock has jumped forward, times that it has skipped are due at the beginning.
//! - If the clock has jumped back, times that it shows again are not due again.
//!
//! For an open pattern, and after a longer jump, only the times that the clock shows are due, each
//! time it shows them. A zone that changes to the other side of the date line skips a whole day so.

use crate::pattern::Pattern;
use crate::zone::{Period, Zone};

/// A jump of three hours or more is a correction of the calendar, as in Vixie cron's manual.
const LONGEST_JUMP: i64 = 3 * 60 * 60;

/// The Gregorian calendar repeats after 400 years, and 146,097 days are whole weeks.
const CALENDAR: i64 = 146_097 * DAY;

const DAY: i64 = 24 * 60 * 60;

/// No clock jumps by more than this. So at this distance from a jump, what the clock shows has the
/// same order as time.
const FAR: i64 = 2 * DAY;

/// Returns the first due time after a time, in seconds; `None` if there is none in 400 years.
pub(crate) fn next(pattern: &Pattern, zone: &Zone, after: i64) -> Option<i64> {
    let mut from = after.checked_add(1)?;
    while pattern.has_times() && from - after <= CALENDAR {
        let period = zone.period_of(from)?;
        let mut shown = from + period.offset;
        if let Some(beginning) = beginning(pattern, &period) {
            // At the beginning, this includes times that were skipped.
            shown = if beginning.at == from { beginning.shown } else { shown.max(beginning.shown) };
        }
        let due = pattern.next_local(shown).map(|local| (local - period.offset).max(from));
        let due = due.filter(|due| due - after <= CALENDAR);
        let Some(end) = period.end.filter(|end| due.is_none_or(|due| due >= *end)) else { return due };
        from = match due {
            // Beyond a jump that is near, the clock may show earlier times once more.
            _ if end - from <= FAR => end,
            Some(due) => end.max(due - FAR),
            None => return None,
        };
    }
    None
}

/// Returns the last due time up to a time, in seconds; `None` if there is none in 400 years.
pub(crate) fn latest(pattern: &Pattern, zone: &Zone, at: i64) -> Option<i64> {
    let mut to = at;
    while pattern.has_times() && at - to <= CALENDAR {
        let period = zone.period_of(to)?;
        let local = pattern.latest_local(to + period.offset);
        let due = local.map(|local| local - period.offset).filter(|due| at - due <= CALENDAR);
        let Some(beginning) = beginning(pattern, &period) else { return due };
        if local.is_some_and(|local| local >= beginning.shown) {
            return due.map(|due| due.max(beginning.at));
        }
        to = match due {
            _ if to - beginning.at <= FAR => beginning.at - 1,
            Some(due) => (beginning.at - 1).min(due + FAR),
            None => return None,
        };
    }
    None
}

/// The beginning of a period, and the first wall-clock time that belongs to the period.
struct Beginning {
    at: i64,
    shown: i64,
}

/// Returns the beginning of a period; `None` for the first one of a zone.
///
/// By Vixie cron's rule, the period begins with what the clock would show if it had not jumped.
/// Otherwise it begins with what the clock shows.
fn beginning(pattern: &Pattern, period: &Period) -> Option<Beginning> {
    let (at, offset_before) = period.begin?;
    let is_followed = pattern.is_fixed() && (period.offset - offset_before).abs() < LONGEST_JUMP;
    Some(Beginning { at, shown: at + if is_followed { offset_before } else { period.offset } })
}
