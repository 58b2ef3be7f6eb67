//! The origins of settings, and the errors of configurations. No error contains a password. An
//! address or a URL that may contain a password is left out.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::name::InvalidName;

/// The origin of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The setting has its default value.
    Default {
        /// The setting.
        key: &'static str,
    },
    /// The value was set in code.
    Code {
        /// The setting.
        key: &'static str,
    },
    /// A part of a URL.
    Url {
        /// The part, such as `host`, or the setting's name in the URL's query.
        key: String,
        /// Where the URL came from: `the URL` if it was given in code, otherwise a variable or a
        /// key of a file.
        url: String,
    },
    /// A key of a file.
    File {
        /// The key as written in the file. In a configuration file of Redisson, the name of the
        /// section precedes the key.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// A variable of the environment.
    Variable {
        /// The name of the variable.
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

/// A warning about an entry of a configuration: the entry has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The entry, and where it was found.
    pub origin: Origin,
    /// The reason why the entry has no effect. The warning ends with this text.
    pub clause: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.clause)
    }
}

/// The error of an invalid configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value cannot be parsed, or is out of range.
    #[error("{origin}: expected {expected}")]
    Value {
        /// The setting.
        origin: Origin,
        /// The allowed values. The text contains the given value only if it cannot be a secret.
        expected: String,
    },
    /// The URL cannot be parsed. The error does not contain the URL, which may contain a password.
    #[error("{url} is not understood: expected {expected}")]
    Url {
        /// Where the URL came from: `the URL` if it was given in code, otherwise a variable or a
        /// key of a file.
        url: String,
        /// The expected form.
        expected: String,
    },
    /// No setting has this name.
    #[error("{origin} is no setting{}", nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    Unknown {
        /// The name and its origin.
        origin: Origin,
        /// The most similar name, if there is one.
        nearest: Option<&'static str>,
    },
    /// Two values contradict each other.
    #[error("{left} and {right} do not fit together: {rule}")]
    Relation {
        /// The first value: its setting and origin, and the value itself if it cannot be a secret.
        left: String,
        /// The second value, or what is missing.
        right: String,
        /// The violated rule. The error message ends with this text.
        rule: &'static str,
    },
    /// An entry is not supported.
    #[error("{origin} {clause}")]
    Unsupported {
        /// The entry.
        origin: Origin,
        /// The reason, and what to do instead. The error message ends with this text.
        clause: String,
    },
    /// The configuration contains no server.
    #[error("no server is named: expected {expected}")]
    NoServer {
        /// The settings that can name a server.
        expected: String,
    },
    /// The namespace is invalid.
    #[error("invalid namespace: {0}")]
    Namespace(#[source] InvalidName),
    /// The file cannot be read.
    #[error("cannot read {}: {kind}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        kind: io::ErrorKind,
    },
    /// The content of the file is not in the format of its extension. The error does not repeat the
    /// text of the file, which may contain a password.
    #[error("{} is not {format}: line {line}, column {column} cannot be parsed", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// YAML, TOML or JSON.
        format: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
}

impl ConfigError {
    pub(super) fn value(origin: &Origin, expected: impl Into<String>) -> Self {
        ConfigError::Value { origin: origin.clone(), expected: expected.into() }
    }
}

/// Returns the name that is most similar to `key`. Returns `None` if that name differs from `key`
/// by more than 1 + `n` / 4 letters, where `n` is the length of the name.
pub(super) fn nearest(key: &str, names: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let far = |name: &&str| strsim::osa_distance(&key.to_lowercase(), &name.to_lowercase());
    let best = names.into_iter().min_by_key(far)?;
    (far(&best) <= 1 + best.len() / 4).then_some(best)
}
