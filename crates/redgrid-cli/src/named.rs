//! How the user names the servers: by an option, a variable, or a context.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use redgrid::Config;
use redgrid::client::ConfigError;
use serde::{Deserialize, Serialize};

use crate::cli::Global;
use crate::context::{Context, ContextFile, ContextServers};
use crate::failure::{Failure, one_line};
use crate::output::{Tone, bold, notice};

/// The most bytes of a file with a URL.
const MAX_URL_FILE: u64 = 64 << 10;

/// How the user named the servers.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Named {
    source: Source,
    /// Where the name is from, for messages.
    origin: String,
    /// The namespace of the context.
    namespace: Option<String>,
    /// The context, if it is marked as production.
    production: Option<String>,
}

/// Where the settings come from.
#[derive(Clone, Serialize, Deserialize)]
enum Source {
    Url(String),
    File(PathBuf),
    /// `REDGRID_URL`, `REDGRID_CONFIG` and variables of single settings.
    Environment,
}

impl Named {
    /// Returns the servers that an option, a variable, or the context in use names; `None` if none
    /// does.
    ///
    /// # Errors
    ///
    /// [`Failure`]: several options or variables name servers, or a file cannot be read.
    pub(crate) fn find(global: &Global) -> Result<Option<Self>, Failure> {
        if let Some(named) = Self::explicit(global)? {
            return Ok(Some(named));
        }
        let contexts = ContextFile::open()?;
        contexts.current().map(|(name, context)| Self::of_context(name, context)).transpose()
    }

    /// Returns the servers that an option or a variable names, without regard to the context in
    /// use.
    ///
    /// # Errors
    ///
    /// [`Failure`]: several options or variables name servers, or a file cannot be read.
    pub(crate) fn explicit(global: &Global) -> Result<Option<Self>, Failure> {
        check_options(global)?;
        if let Some(url) = &global.url {
            warn_of_password(global, url);
            return Ok(Some(Self::of_url(url.clone(), "--url")));
        }
        if let Some(file) = &global.url_file {
            return Ok(Some(Self::of_url(read_url(file)?, &format!("--url-file {}", file.display()))));
        }
        if let Some(file) = &global.config {
            return Ok(Some(Self::new(Source::File(file.clone()), "--config")));
        }
        if let Some(name) = &global.context {
            return Self::find_context(name).map(Some);
        }
        let variables = ["REDGRID_URL", "REDGRID_CONFIG"];
        match (variable("REDGRID_CONTEXT")?, variables.into_iter().find(|name| is_set(name))) {
            (Some(_), Some(other)) => Err(Failure::usage(format!(
                "the variables REDGRID_CONTEXT and {other} both name the servers; set one of them"
            ))),
            (Some(name), None) => Self::find_context(&name).map(Some),
            (None, Some(_)) => Ok(Some(Self::new(Source::Environment, "the environment"))),
            (None, None) => Ok(None),
        }
    }

    /// Names servers by a URL; `origin` is for messages.
    pub(crate) fn of_url(url: impl Into<String>, origin: &str) -> Self {
        Self::new(Source::Url(url.into()), origin)
    }

    /// Names the servers of a context.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the file with the URL cannot be read.
    pub(crate) fn of_context(name: &str, context: &Context) -> Result<Self, Failure> {
        let source = match &context.servers {
            ContextServers::Url(url) => Source::Url(url.clone()),
            ContextServers::UrlFile(file) => Source::Url(read_url(file)?),
            ContextServers::Config(file) => Source::File(file.clone()),
        };
        let mut named = Self::new(source, &format!("the context `{name}`"));
        named.namespace = context.namespace.clone();
        named.production = context.is_production.then(|| name.to_owned());
        Ok(named)
    }

    fn find_context(name: &str) -> Result<Self, Failure> {
        let contexts = ContextFile::open()?;
        Self::of_context(name, contexts.find(name)?)
    }

    fn new(source: Source, origin: &str) -> Self {
        Named { source, origin: origin.to_owned(), namespace: None, production: None }
    }

    /// Returns the namespace of the context.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Prints a banner if they are of a context that is marked as production.
    pub(crate) fn announce(&self, global: &Global) {
        if let Some(context) = &self.production {
            notice(global, &bold(&format!("the servers are those of the PRODUCTION context `{context}`"), Tone::Bad));
        }
    }

    /// Returns the configuration. The environment is read only if it names the servers: then all
    /// its variables apply, as for a service.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        match &self.source {
            Source::Url(url) => Config::from_url(url),
            Source::File(file) => Config::from_file(file),
            Source::Environment => Config::from_env(),
        }
    }

    /// Creates the failure for an invalid configuration.
    pub(crate) fn unusable(&self, error: &ConfigError) -> Failure {
        Failure::usage(format!("cannot use {}: {}", self.origin, one_line(error)))
    }
}

// A URL may contain a password.
impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Prints a notice on a terminal if a URL of the command line has a password.
fn warn_of_password(global: &Global, url: &str) {
    let login = url.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    if login.is_some_and(|(login, _)| login.contains(':')) && io::stderr().is_terminal() {
        notice(global, "other users of this machine see the password in --url; see --url-file and `redgrid context`");
    }
}

/// Fails if several options name servers. One may be before the command and another after it, so
/// clap does not notice.
fn check_options(global: &Global) -> Result<(), Failure> {
    let given: Vec<&str> = [
        ("--url", global.url.is_some()),
        ("--url-file", global.url_file.is_some()),
        ("--config", global.config.is_some()),
        ("--context", global.context.is_some()),
    ]
    .into_iter()
    .filter_map(|(option, is_given)| is_given.then_some(option))
    .collect();
    match given[..] {
        [one, other, ..] => Err(Failure::usage(format!("{one} and {other} both name the servers; give one of them"))),
        _ => Ok(()),
    }
}

/// Reads a file that contains a URL. `-` is stdin.
pub(crate) fn read_url(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().take(MAX_URL_FILE + 1).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(MAX_URL_FILE + 1).read_to_string(&mut text))
    };
    let shown = file.display();
    match read {
        Err(error) => Err(Failure::usage(format!("cannot read the URL in {shown}: {error}"))),
        Ok(len) if len as u64 > MAX_URL_FILE => {
            Err(Failure::usage(format!("cannot use the URL in {shown}: it is longer than {MAX_URL_FILE} bytes")))
        }
        Ok(_) if text.trim().is_empty() => {
            Err(Failure::usage(format!("cannot use the URL in {shown}: expected a URL, got nothing")))
        }
        Ok(_) if text.trim().lines().count() > 1 => {
            Err(Failure::usage(format!("cannot use the URL in {shown}: expected one line, got several")))
        }
        Ok(_) => Ok(text.trim().to_owned()),
    }
}

/// Returns whether a variable has a value. An empty one counts as unset.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Returns the text of a variable; `None` if it is unset or empty.
pub(crate) fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var_os(name).filter(|value| !value.is_empty()).map(std::ffi::OsString::into_string) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(Failure::usage(format!("cannot use the variable {name}: it is not UTF-8"))),
    }
}
