//! Where a value came from, and what can be wrong with it. No password is in any of this, and no
//! address or URL that may hold one.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::name::InvalidName;

/// Where a setting's value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody set it.
    Default {
        /// The setting.
        key: &'static str,
    },
    /// Set in code.
    Code {
        /// The setting.
        key: &'static str,
    },
    /// A part of a URL.
    Url {
        /// The part, such as `host`, or the setting's name in its query.
        key: String,
        /// Where the URL was: `the URL`, a variable, or a key of a file.
        url: String,
    },
    /// A key of a file.
    File {
        /// The key as the file has it; with its section in a file of Redisson's.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// A variable of the environment.
    Variable {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default { key } | Origin::Code { key } => write!(f, "`{key}`"),
            Origin::Url { key, url } => write!(f, "`{key}` in {url}"),
            Origin::File { key, path } => write!(f, "`{key}` in {}", path.display()),
            Origin::Variable { name } => f.write_str(name),
        }
    }
}

/// Something in a configuration that has no effect here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub origin: Origin,
    /// What is to be known, as a clause.
    pub clause: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.clause)
    }
}

/// A configuration that can not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value is not understood, or out of its bounds.
    #[error("{origin}: expected {expected}")]
    Value {
        /// Which one.
        origin: Origin,
        /// What was expected, and what was found where that can not be a secret.
        expected: String,
    },
    /// The URL is not understood. (It is not repeated here: it may hold a password.)
    #[error("{url} is not understood: expected {expected}")]
    Url {
        /// Where the URL was: `the URL`, a variable, or a key of a file.
        url: String,
        /// What was expected.
        expected: String,
    },
    /// There is no setting of this name.
    #[error("{origin} is no setting{}", nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// The name, and where it stands.
        origin: Origin,
        /// The name most like it, if there is one.
        nearest: Option<&'static str>,
    },
    /// Two values do not fit together.
    #[error("{left} and {right} do not fit: {rule}")]
    Relation {
        /// The one, with its value where that can not be a secret.
        left: String,
        /// The other.
        right: String,
        /// The rule that they break, as a clause.
        rule: &'static str,
    },
    /// Something that it means can not be done here.
    #[error("{origin} {clause}")]
    Unsupported {
        /// What.
        origin: Origin,
        /// Why not, and what to do instead.
        clause: String,
    },
    /// No server is named.
    #[error("no server is named: expected {expected}")]
    NoServer {
        /// What would name one.
        expected: String,
    },
    /// The namespace can not be used.
    #[error("the namespace can not be used")]
    Namespace(#[source] InvalidName),
    /// The file can not be read.
    #[error("cannot read {}: {kind}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        kind: io::ErrorKind,
    },
    /// The file is not in the format that its name promises. (What it says there is not repeated:
    /// it may be a password.)
    #[error("{} is not {format}: line {line}, column {column} can not be understood", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// YAML, TOML or JSON.
        format: &'static str,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
}

impl ConfigError {
    pub(super) fn value(origin: &Origin, expected: impl Into<String>) -> Self {
        ConfigError::Value { origin: origin.clone(), expected: expected.into() }
    }
}

/// The name most like `key`, where one is like it: a third of its letters may differ.
pub(super) fn nearest(key: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let far = |name: &&str| strsim::osa_distance(&key.to_lowercase(), &name.to_lowercase());
    let best = names.into_iter().min_by_key(far)?;
    (far(&best) <= 1 + best.len() / 4).then_some(best)
}
