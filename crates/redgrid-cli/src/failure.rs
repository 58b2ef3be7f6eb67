//! Errors of commands: one sentence, and an exit code.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The sale was incorrect, or the data in Redis does not prove it correct.
pub(crate) const NOT_PROVEN: u8 = 1;

/// A benchmark had errors or violations.
pub(crate) const WRONG: u8 = 1;

/// The command line, or a file that it names, is unusable. Also clap's exit code.
const USAGE: u8 = 2;

/// The server is unavailable; `EX_UNAVAILABLE` of `sysexits.h`.
const UNAVAILABLE: u8 = 69;

/// The command was ended by a signal: 128 plus the signal's number, as in shells.
pub(crate) const SIGNALLED: u8 = 128;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// Creates a failure with this exit code.
    pub(crate) fn with(code: u8, sentence: impl Into<String>) -> Self {
        Failure { code, sentence: sentence.into() }
    }

    /// The command line, or a file that it names, is unusable.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Failure { code: USAGE, sentence: sentence.into() }
    }

    /// The server is unavailable.
    pub(crate) fn unavailable(sentence: impl Into<String>) -> Self {
        Failure { code: UNAVAILABLE, sentence: sentence.into() }
    }

    /// An error interrupted the command, so the result is not proven.
    pub(crate) fn broken(sentence: impl Into<String>) -> Self {
        Failure { code: NOT_PROVEN, sentence: sentence.into() }
    }

    /// A signal ended the command.
    pub(crate) fn signalled(number: u8) -> Self {
        Failure { code: SIGNALLED + number, sentence: "stopped before the end; nothing is proven".into() }
    }

    /// Appends a clause to the sentence.
    pub(crate) fn and(mut self, clause: &str) -> Self {
        self.sentence = format!("{}; {clause}", self.sentence);
        self
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// Formats an error in one line. The message already contains the causes, so they are not appended.
pub(crate) fn one_line(error: &dyn Error) -> String {
    error.to_string().replace(['\r', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let error = redgrid::Config::from_url("http://somewhere").unwrap_err();
        let error = redgrid::ConnectError::from(error);
        assert_eq!(
            one_line(&error),
            "invalid configuration: the URL is not understood: expected the scheme `redis`, `redis-sentinel`, \
             `redis-cluster`, `redis-master-slave`, `redis-replicated` or `redis+unix`, or with `rediss` or `valkey`"
        );
    }
}
