//! Errors of commands: one sentence, and an exit code.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::exit_codes::{NO_PERMISSION, SIGNALLED, UNAVAILABLE, USAGE, WRONG};

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

    /// The user of the servers lacks a permission.
    pub(crate) fn no_permission(sentence: impl Into<String>) -> Self {
        Failure { code: NO_PERMISSION, sentence: sentence.into() }
    }

    /// An error interrupted the command, so there is no result.
    pub(crate) fn broken(sentence: impl Into<String>) -> Self {
        Failure { code: WRONG, sentence: sentence.into() }
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
