//! The report of a measurement: promises with their bounds, and named numbers. The programs behind
//! `cargo xtask scale` and `cargo xtask endurance` print it as JSON, and these commands make tables
//! of it.

use std::process::ExitCode;
use std::time::Instant;

use redgrid_testkit::ServerBinary;
use serde::Serialize;
use serde_json::{Map, Value};

/// The report. The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) measure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
    server: String,
    seconds: f64,
    promises: Vec<Promise>,
    /// Numbers without a bound.
    numbers: Map<String, Value>,
    #[serde(skip)]
    pub(crate) began: Instant,
}

#[derive(Debug, Serialize)]
struct Promise {
    what: String,
    was: f64,
    bound: String,
    holds: bool,
}

impl Report {
    /// Returns an empty report. `count` is the number of measured items, if it varies.
    pub(crate) fn new(measure: &str, count: Option<usize>) -> Self {
        let server = ServerBinary::find().map(|found| found.version().to_string()).unwrap_or_default();
        let (promises, numbers) = (Vec::new(), Map::new());
        Report { measure: measure.to_owned(), count, server, seconds: 0.0, promises, numbers, began: Instant::now() }
    }

    /// Adds the promise that a value does not exceed a bound. `what` includes the unit.
    pub(crate) fn at_most(&mut self, what: impl Into<String>, was: f64, bound: f64) {
        let (was, bound, holds) = (rounded(was), rounded(bound), was <= bound);
        self.promises.push(Promise { what: what.into(), was, bound: format!("<= {bound}"), holds });
    }

    /// Adds the promise that a value is exact.
    pub(crate) fn exactly(&mut self, what: impl Into<String>, was: usize, bound: usize) {
        let (is, holds) = (was as f64, was == bound);
        self.promises.push(Promise { what: what.into(), was: is, bound: format!("= {bound}"), holds });
    }

    pub(crate) fn number(&mut self, name: impl Into<String>, was: impl Serialize) {
        let was = serde_json::to_value(was).expect("plain data");
        let was = was.as_f64().filter(|_| was.is_f64()).map_or(was, |number| rounded(number).into());
        self.numbers.insert(name.into(), was);
    }

    /// Prints the line of JSON. The exit code is that of success if all promises were kept.
    pub(crate) fn print(mut self) -> ExitCode {
        self.seconds = rounded(self.began.elapsed().as_secs_f64());
        println!("{}", serde_json::to_string(&self).expect("plain data"));
        let broken: Vec<_> = self.promises.iter().filter(|promise| !promise.holds).collect();
        for Promise { what, was, bound, .. } in &broken {
            eprintln!("broken: {what}: {was}, and {bound} was promised");
        }
        if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Rounds to three decimal places.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
