//! How a command ends early: one sentence for a person, one exit code for a script.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The sale was wrong: what was read back from Redis does not prove it right.
pub(crate) const NOT_PROVEN: u8 = 1;

/// A bench ran to its end and saw errors, or two where one should have been.
pub(crate) const WRONG: u8 = 1;

/// The command line, or a file it names, can not be used. The same code clap ends with.
const USAGE: u8 = 2;

/// No server to work with; `EX_UNAVAILABLE` of `sysexits.h`.
const UNAVAILABLE: u8 = 69;

/// Ended by a signal: 128 and its number, as shells have it.
pub(crate) const SIGNALLED: u8 = 128;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: String,
}

impl Failure {
    /// With an exit code of the command's own.
    pub(crate) fn with(code: u8, sentence: impl Into<String>) -> Self {
        Failure { code, sentence: sentence.into() }
    }

    /// The command line, or a file it names, can not be used.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Failure { code: USAGE, sentence: sentence.into() }
    }

    /// There is no server to work with.
    pub(crate) fn unavailable(sentence: impl Into<String>) -> Self {
        Failure { code: UNAVAILABLE, sentence: sentence.into() }
    }

    /// Something broke off in the middle, so that nothing is proven.
    pub(crate) fn broken(sentence: impl Into<String>) -> Self {
        Failure { code: NOT_PROVEN, sentence: sentence.into() }
    }

    /// A person or a supervisor ended the command.
    pub(crate) fn signalled(number: u8) -> Self {
        Failure { code: SIGNALLED + number, sentence: "stopped before the end; nothing is proven".into() }
    }

    /// The same, with something left to do.
    pub(crate) fn and(mut self, clause: &str) -> Self {
        self.sentence = format!("{}; {clause}", self.sentence);
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

/// An error in one line. Its message contains the causes: they are not printed a second time.
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
