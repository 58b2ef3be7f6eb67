//! What a measure found: its promises, and what else is worth knowing.

use std::process::ExitCode;
use std::time::Instant;

use redgrid_testkit::ServerBinary;
use serde::Serialize;
use serde_json::{Map, Value};

/// The fields are those of the JSON line, in its order.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    measure: String,
    server: String,
    seconds: f64,
    promises: Vec<Promise>,
    /// Numbers without a bound.
    also: Map<String, Value>,
    #[serde(skip)]
    began: Instant,
}

#[derive(Debug, Serialize)]
struct Promise {
    what: String,
    was: f64,
    bound: String,
    holds: bool,
}

impl Report {
    pub(crate) fn new(measure: &str) -> Self {
        let server = ServerBinary::find().map(|found| found.version().to_string()).unwrap_or_default();
        let (promises, also) = (Vec::new(), Map::new());
        Report { measure: measure.to_owned(), server, seconds: 0.0, promises, also, began: Instant::now() }
    }

    /// What was promised not to exceed a bound; the unit is part of `what`.
    pub(crate) fn at_most(&mut self, what: impl Into<String>, was: f64, bound: f64) {
        let bound = rounded(bound);
        self.promises.push(Promise {
            what: what.into(),
            was: rounded(was),
            bound: format!("<= {bound}"),
            holds: was <= bound,
        });
    }

    /// What was promised to be so and no other.
    pub(crate) fn exactly(&mut self, what: impl Into<String>, was: usize, bound: usize) {
        let (was_it, bound_it) = (was as f64, format!("= {bound}"));
        self.promises.push(Promise { what: what.into(), was: was_it, bound: bound_it, holds: was == bound });
    }

    pub(crate) fn also(&mut self, what: impl Into<String>, was: impl Serialize) {
        self.also.insert(what.into(), serde_json::to_value(was).expect("plain data"));
    }

    /// Prints the line, and tells whether all was kept.
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

/// To a tenth.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
