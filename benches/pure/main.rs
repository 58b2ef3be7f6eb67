//! The parts that no server takes part in: `cargo bench --bench pure`, and `cargo bench --bench pure -- hub` for some of them.
//!
//! | file | what is measured |
//! |---|---|
//! | `names` | from names to keys, channels and slots |
//! | `codecs` | values to bytes and back |
//! | `replies` | requests before they are sent, and answers as values |
//! | `holds` | the table of holds: whole turns of a lock, behind a server that answers at once |
//! | `hub` | from a message to whoever waits for it, among few channels and many |
//! | `at_once` | that server |
//! | `thread_time` | what time is here: that of the processor |

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
    // Much is measured, and much of it takes nanoseconds: a second each is enough for three figures.
    let criterion = Criterion::default().with_measurement(ThreadTime).warm_up_time(Duration::from_millis(300));
    let mut criterion = criterion.measurement_time(Duration::from_secs(1)).sample_size(50).configure_from_args();
    names::measure(&mut criterion);
    codecs::measure(&mut criterion);
    replies::measure(&mut criterion);
    holds::measure(&mut criterion);
    hub::measure(&mut criterion);
    criterion.final_summary();
}
