//! One result of a check.

use serde::Serialize;

/// The severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Level {
    /// No problem.
    Ok,
    /// Not right for all uses.
    Warn,
    /// Locks do not work, or not as documented.
    Fail,
}

/// A result. The fields are those of its JSON, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The check, such as `persistence`.
    pub check: &'static str,
    /// The node; `None` for the deployment as a whole.
    pub node: Option<String>,
    /// The meaning for locks, and the remedy, in one line.
    pub message: String,
}

impl Finding {
    fn of(check: &'static str, level: Level, message: impl Into<String>) -> Self {
        // Causes may be texts of a server or an operating system.
        let message = message.into().replace(['\r', '\n'], " ");
        Finding { level, check, node: None, message }
    }

    pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Finding::of(check, Level::Ok, message)
    }

    pub(super) fn warn(check: &'static str, message: impl Into<String>) -> Self {
        Finding::of(check, Level::Warn, message)
    }

    pub(super) fn fail(check: &'static str, message: impl Into<String>) -> Self {
        Finding::of(check, Level::Fail, message)
    }

    /// Sets the node.
    pub(super) fn at(mut self, node: &impl ToString) -> Self {
        self.node = Some(node.to_string());
        self
    }
}
