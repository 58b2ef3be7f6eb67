//! Time zones, as periods of a constant distance from UTC.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::ScheduleError;
use crate::error::cut;

/// A time zone of the data in this program.
#[derive(Debug, Clone)]
pub(crate) struct Zone {
    name: String,
    rules: TimeZone,
}

/// A time in which the clock of a zone neither jumps forward nor back. All times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    /// The offset: local time minus UTC.
    pub(crate) offset: i64,
    /// The beginning, and the offset before it. `None` for the first period of a zone.
    pub(crate) begin: Option<(i64, i64)>,
    /// The beginning of the next period; `None` for the last one of a zone.
    pub(crate) end: Option<i64>,
}

impl Zone {
    pub(crate) fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    /// Finds a zone by its IANA name, in any case.
    pub(crate) fn find(name: &str) -> Result<Self, ScheduleError> {
        let zones = TimeZoneDatabase::bundled();
        let found = zones.get(name).ok().and_then(|rules| Some((rules.iana_name()?.to_owned(), rules)));
        match found {
            Some((name, rules)) => Ok(Self { name, rules }),
            None => Err(ScheduleError::UnknownZone { name: cut(name), like: similar(name, &zones) }),
        }
    }

    /// Returns the name as the data spell it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the period of a time; `None` outside of the years -9999 to 9999.
    pub(crate) fn period_of(&self, at: i64) -> Option<Period> {
        let offset = |at: i64| Some(i64::from(self.rules.to_offset(Timestamp::from_second(at).ok()?).seconds()));
        let (this, next) = (Timestamp::from_second(at).ok()?, Timestamp::from_second(at + 1).ok()?);
        // `preceding` is exclusive, and the change may be at this very time.
        let begin = self.rules.preceding(next).next().map(|change| change.timestamp().as_second());
        let begin = begin.and_then(|begin| Some((begin, offset(begin - 1)?)));
        let end = self.rules.following(this).next().map(|change| change.timestamp().as_second());
        Some(Period { offset: offset(at)?, begin, end })
    }
}

/// Returns the name of a zone that is most like this one, if one is similar.
fn similar(name: &str, zones: &TimeZoneDatabase) -> Option<String> {
    /// More differing letters than this are no slip of the hand.
    const SLIP: usize = 3;

    let wanted = cut(name).to_ascii_lowercase();
    let distance = |zone: &str| {
        let zone = zone.to_ascii_lowercase();
        // A city without its continent is a common mistake.
        let city = zone.rsplit('/').next().unwrap_or(&zone);
        strsim::osa_distance(&wanted, &zone).min(1 + strsim::osa_distance(&wanted, city))
    };
    let all = zones.available().map(|zone| zone.as_str().to_owned());
    let (distance, like) = all.map(|zone| (distance(&zone), zone)).min()?;
    (distance <= SLIP && distance < wanted.len()).then_some(like)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::find(name).unwrap()
    }

    #[test]
    fn a_zone_is_found_in_any_case() {
        for (given, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            ("UTC", "UTC"),
            ("utc", "UTC"),
            ("US/Pacific", "US/Pacific"),
            ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
            ("Etc/GMT+5", "Etc/GMT+5"),
        ] {
            assert_eq!(zone(given).name(), name, "{given}");
        }
    }

    #[test]
    fn an_unknown_zone_is_refused_with_a_similar_name() {
        for (given, like) in [
            ("Europe/Berln", Some("Europe/Berlin")),
            ("Europe/Kiew", Some("Europe/Kiev")),
            ("Asia/Calcuta", Some("Asia/Calcutta")),
            ("Berlin", Some("Europe/Berlin")),
            ("tokio", Some("Asia/Tokyo")),
            ("New York", Some("America/New_York")),
            ("Middle/Earth", None),
            ("", None),
            ("x", None),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("Etc/Unknown", None),
            ("../../etc/passwd", None),
        ] {
            let error = Zone::find(given).unwrap_err();
            let like = like.map(str::to_owned);
            if given == "Etc/Unknown" {
                assert!(matches!(error, ScheduleError::UnknownZone { .. }));
            } else {
                assert_eq!(error, ScheduleError::UnknownZone { name: given.to_owned(), like });
            }
        }
        let error = Zone::find("Europe/Berln").unwrap_err().to_string();
        assert_eq!(error, "there is no time zone `Europe/Berln`: did you mean `Europe/Berlin`?");
        let error = Zone::find("Middle/Earth").unwrap_err().to_string();
        let expected = "there is no time zone `Middle/Earth`: expected an IANA name, such as `Europe/Berlin`";
        assert_eq!(error, expected);
        let ScheduleError::UnknownZone { name, .. } = Zone::find(&"é".repeat(10_000)).unwrap_err() else { panic!() };
        assert_eq!(name.chars().count(), 256);
    }

    #[test]
    fn a_period_is_the_time_between_two_changes_of_the_clock() {
        // 2024-03-31T01:00:00Z and 2024-10-27T01:00:00Z.
        let (spring, autumn) = (1_711_846_800, 1_729_990_800);
        let berlin = zone("Europe/Berlin");
        let summer = Period { offset: 7_200, begin: Some((spring, 3_600)), end: Some(autumn) };
        for at in [spring, spring + 1, autumn - 1] {
            assert_eq!(berlin.period_of(at), Some(summer), "{at}");
        }
        assert_eq!(berlin.period_of(spring - 1).unwrap().end, Some(spring));
        assert_eq!(berlin.period_of(autumn).unwrap().begin, Some((autumn, 7_200)));
        assert_eq!(Zone::utc().period_of(0), Some(Period { offset: 0, begin: None, end: None }));
        assert_eq!(berlin.period_of(i64::MAX - 1), None);
        // 2011-12-30T10:00:00Z: the 29th is followed by the 31st.
        let apia = zone("Pacific/Apia").period_of(1_325_239_200).unwrap();
        assert_eq!((apia.offset, apia.begin), (14 * 3_600, Some((1_325_239_200, -10 * 3_600))));
    }
}
