//! What a limiter's script tells those who ask.

use std::time::Duration;

use redgrid_core::ServerError;

/// One who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) permits: u64,
    /// Permits may be taken for so much later.
    pub(crate) ahead: Duration,
    /// Nobody behind is asked for before.
    pub(crate) waits: bool,
}

/// What became of one who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Taken, for so much later; and by which entry, from 1 on.
    Taken {
        entry: usize,
        after: Duration,
    },
    NotNow,
    TooMany,
}

/// What became of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// What those who asked were asked for by.
    pub(crate) id: [u8; 16],
    /// How many can be had at once.
    pub(crate) most: u64,
    /// It is to be asked again at once.
    pub(crate) again: bool,
    /// How long the first who waits has to.
    pub(crate) next: Duration,
    /// How many were free before.
    pub(crate) free: i64,
    /// The scores of the entries that were made.
    pub(crate) scores: Vec<String>,
    pub(crate) verdicts: Vec<Verdict>,
}

impl Told {
    /// None where no rate is set.
    pub(crate) fn read(parts: &[String]) -> Result<Option<Told>, ServerError> {
        if parts.first().is_some_and(|status| status == "0") {
            return Ok(None);
        }
        let read = || {
            let [status, most, again, next, free, scores, verdicts @ ..] = parts else { return None };
            (status == "1").then_some(())?;
            let verdicts = verdicts.iter().map(|text| verdict(text)).collect::<Option<_>>()?;
            let (most, free) = (most.parse().ok()?, free.parse::<f64>().ok()? as i64);
            let scores = scores.split_whitespace().map(str::to_owned).collect();
            Some(Told { id: [0; 16], most, again: again == "1", next: micros(next)?, free, scores, verdicts })
        };
        let unexpected = || ServerError::Decode { expected: "an answer of a limiter", got: format!("{parts:?}") };
        read().map(Some).ok_or_else(unexpected)
    }
}

fn verdict(text: &str) -> Option<Verdict> {
    let mut words = text.split(' ');
    match words.next()? {
        "t" => Some(Verdict::TooMany),
        "w" => Some(Verdict::NotNow),
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
    fn every_answer_of_the_scripts_is_read() {
        let read = |parts: &[&str]| Told::read(&parts.iter().map(|part| part.to_string()).collect::<Vec<_>>());
        assert_eq!(read(&["0"]).unwrap(), None);
        let told = read(&["1", "10", "1", "1500", "-2", "17.5 18", "g 1 0", "g 2 250", "t", "w"]).unwrap().unwrap();
        assert_eq!((told.most, told.again, told.next, told.free), (10, true, Duration::from_micros(1500), -2));
        assert_eq!(told.scores, ["17.5", "18"]);
        let taken = |entry, micros| Verdict::Taken { entry, after: Duration::from_micros(micros) };
        assert_eq!(told.verdicts, [taken(1, 0), taken(2, 250), Verdict::TooMany, Verdict::NotNow]);
        for bad in [&["1"][..], &["2", "1", "0", "0", "0", ""], &["1", "1", "0", "0", "0", "", "x"]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
