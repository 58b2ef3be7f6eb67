//! One result of a check.

use serde::Serialize;

/// The severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// No problem.
    Ok,
    /// A problem for some uses.
    Warn,
    /// Locks do not work, or not as documented.
    Fail,
}

/// The result of a check. The fields are those of the JSON line, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The severity.
    pub(crate) level: Level,
    /// The check.
    pub(crate) check: &'static str,
    /// The node; `None` for the deployment as a whole.
    pub(crate) node: Option<String>,
    /// The meaning of the result for locks, and the remedy.
    pub(crate) says: String,
}

impl Finding {
    pub(crate) fn of(check: &'static str, level: Level, says: impl Into<String>) -> Self {
        Finding { level, check, node: None, says: says.into() }
    }

    pub(crate) fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Finding::of(check, Level::Ok, says)
    }

    pub(crate) fn warn(check: &'static str, says: impl Into<String>) -> Self {
        Finding::of(check, Level::Warn, says)
    }

    pub(crate) fn fail(check: &'static str, says: impl Into<String>) -> Self {
        Finding::of(check, Level::Fail, says)
    }

    /// Sets the node.
    pub(crate) fn at(mut self, node: &impl ToString) -> Self {
        self.node = Some(node.to_string());
        self
    }

    /// Formats the finding as a line.
    pub(crate) fn text(&self) -> String {
        let level = match self.level {
            Level::Ok => "ok  ",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        };
        let place = self.node.as_deref().map(|node| format!(" {node}:")).unwrap_or_default();
        format!("{level}  {:<12}{place} {}", self.check, self.says)
    }
}
