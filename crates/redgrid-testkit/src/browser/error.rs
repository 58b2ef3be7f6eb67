//! Errors of a browser.

use std::{io, time::Duration};

/// A browser did not start, or did not do what a test wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// The folder or the process of the driver could not be created. No browser is running.
    #[error("could not start the driver of the browser: {0}")]
    Setup(#[from] io::Error),
    /// The driver was not ready in time, and was ended.
    #[error("the driver was not ready within {waited:?}; its log:\n{log}")]
    NotReady {
        /// The time limit.
        waited: Duration,
        /// The log of the driver.
        log: String,
    },
    /// The driver did not answer. Whether the command was executed is unknown.
    #[error("the driver did not answer `{command}`: {reason}")]
    NoAnswer {
        /// The command.
        command: String,
        /// The reason.
        reason: String,
    },
    /// The browser could not execute a command.
    #[error("`{command}` failed: {error}: {message}")]
    Failed {
        /// The command, with the selector of its element.
        command: String,
        /// The error code of WebDriver, such as `no such element`.
        error: String,
        /// The message of the driver.
        message: String,
    },
    /// The page did not come into the expected state.
    #[error("not reached within {waited:?}: {expected}; the page {url} shows:\n{text}")]
    TimedOut {
        /// The time limit.
        waited: Duration,
        /// The expected state.
        expected: String,
        /// The address of the page.
        url: String,
        /// The text of the page.
        text: String,
    },
}

impl BrowserError {
    /// Whether the page has changed while a command was executed, so that the next try may succeed.
    pub(super) fn is_passing(&self) -> bool {
        const PASSING: [&str; 5] = [
            "no such element",
            "stale element reference",
            "element click intercepted",
            "element not interactable",
            "javascript error",
        ];
        matches!(self, Self::Failed { error, .. } if PASSING.contains(&error.as_str()))
    }
}
