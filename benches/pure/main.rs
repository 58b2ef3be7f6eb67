//! Benchmarks that need no server: `cargo bench --bench pure`. For one group:
//! `cargo bench --bench pure -- hub`.
//!
//! | file | measures |
//! |---|---|
//! | `names` | names, keys, channels and slots |
//! | `codecs` | encoding and decoding of values |
//! | `replies` | building requests and reading replies |
//! | `holds` | the table of holds: acquire and release, with a simulated server |
//! | `hub` | the delivery of a message to waiting tasks, with few channels and many |
//! | `at_once` | the simulated server |
//! | `thread_time` | the unit: processor time of the thread |

mod at_once;
mod codecs;
mod holds;
mod hub;
mod names;
mod replies;
mod thread_time;

use std::time::Duration;

use criterion::Criterion;
use thread_time::ThreadTime;

fn main() {
    // Most benchmarks take nanoseconds per iteration: one second each gives three significant
    // digits.
    let criterion = Criterion::default().with_measurement(ThreadTime).warm_up_time(Duration::from_millis(300));
    let mut criterion = criterion.measurement_time(Duration::from_secs(1)).sample_size(50).configure_from_args();
    names::measure(&mut criterion);
    codecs::measure(&mut criterion);
    replies::measure(&mut criterion);
    holds::measure(&mut criterion);
    hub::measure(&mut criterion);
    criterion.final_summary();
}
