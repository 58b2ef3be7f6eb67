//! Reports tests that skip themselves.

use std::io::{self, Write as _};

/// Prints to standard error that `test` is skipped, and the reason.
///
/// The line bypasses the test harness's capture, so that a skipped test is visible even when all
/// tests pass.
pub(crate) fn report_skipped(test: &str, reason: &str) {
    // A closed standard error must not fail a skipped test.
    let _ = io::stderr().write_all(format!("SKIPPED {test}: {reason}\n").as_bytes());
}
