//! One thing that was looked at.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Right for some, and not for all.
    Warn,
    /// Locks do not keep what they promise, or do not work.
    Fail,
}

/// What was found. The fields are those of the JSON line, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// How bad it is.
    pub(crate) level: Level,
    /// What was looked at.
    pub(crate) check: &'static str,
    /// Where; `None` for the deployment as a whole.
    pub(crate) node: Option<String>,
    /// What it means for locks, and what to do.
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

    /// The same, about one node.
    pub(crate) fn at(mut self, node: &impl ToString) -> Self {
        self.node = Some(node.to_string());
        self
    }

    /// A line for a person.
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
