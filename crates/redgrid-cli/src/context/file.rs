//! The file with the contexts of a user.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::{Table, Value};

use crate::failure::Failure;
use crate::named::variable;
use crate::text::printable;

/// The most bytes of the file.
const MAX_FILE: u64 = 1 << 20;

/// The longest name of a context, in bytes.
const MAX_NAME: usize = 64;

/// The contexts of the user.
pub(crate) struct ContextFile {
    path: PathBuf,
    current: Option<String>,
    contexts: BTreeMap<String, Context>,
}

/// Servers with a name.
#[derive(Clone)]
pub(crate) struct Context {
    /// The servers.
    pub(crate) servers: ContextServers,
    /// The namespace of all names.
    pub(crate) namespace: Option<String>,
    /// Whether commands print a banner.
    pub(crate) is_production: bool,
}

/// How a context names its servers.
#[derive(Clone)]
pub(crate) enum ContextServers {
    /// By a URL, which may contain a password.
    Url(String),
    /// By a file with a URL.
    UrlFile(PathBuf),
    /// By a configuration file.
    Config(PathBuf),
}

/// The file, as it is written.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<&'a str>,
    contexts: BTreeMap<&'a str, WrittenContext<'a>>,
}

#[derive(Serialize)]
struct WrittenContext<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url_file: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    production: bool,
}

impl ContextFile {
    /// Reads the file of this user. A file that does not exist has no contexts.
    ///
    /// # Errors
    ///
    /// [`Failure`]: the file cannot be read, other users may read it, or it is not a file of
    /// contexts. The message contains no value of the file, because it may be a password.
    pub(crate) fn open() -> Result<Self, Failure> {
        let empty = |path| ContextFile { path, current: None, contexts: BTreeMap::new() };
        let Some(path) = path()? else { return Ok(empty(PathBuf::new())) };
        let metadata = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(empty(path)),
            metadata => metadata.map_err(|error| unreadable(&path, &error))?,
        };
        if metadata.len() > MAX_FILE {
            return Err(unusable(&path, &format!("it is longer than {MAX_FILE} bytes")));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let shown = path.display();
            return Err(unusable(&path, &format!("other users may read it (mode {mode:04o}); run chmod 600 {shown}")));
        }
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        Self::parse(path, &text)
    }

    fn parse(path: PathBuf, text: &str) -> Result<Self, Failure> {
        // The whole message of the parser shows the line, which may contain a password.
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            unusable(&path, &format!("line {line}: {}", error.message().replace('\n', " ")))
        })?;
        let mut current = None;
        let mut contexts = BTreeMap::new();
        for (key, value) in table {
            match (key.as_str(), value) {
                ("current", Value::String(name)) => current = Some(name),
                ("contexts", Value::Table(all)) => {
                    for (name, value) in all {
                        check_name(&name).map_err(|failure| unusable(&path, &failure.to_string()))?;
                        let context = Context::parse(value);
                        let context =
                            context.map_err(|why| unusable(&path, &format!("the context `{name}`: {why}")))?;
                        contexts.insert(name, context);
                    }
                }
                ("current", _) => return Err(unusable(&path, "`current`: expected the name of a context")),
                ("contexts", _) => return Err(unusable(&path, "`contexts`: expected tables")),
                (key, _) => {
                    let key = printable(key);
                    return Err(unusable(&path, &format!("`{key}`: expected `current` or `[contexts.NAME]`")));
                }
            }
        }
        match current.as_ref().filter(|name| !contexts.contains_key(*name)) {
            Some(name) => Err(unusable(&path, &format!("`current`: there is no context `{}`", printable(name)))),
            None => Ok(ContextFile { path, current, contexts }),
        }
    }

    /// Returns the context in use, with its name.
    pub(crate) fn current(&self) -> Option<(&str, &Context)> {
        let (name, context) = self.contexts.get_key_value(self.current.as_ref()?)?;
        Some((name, context))
    }

    /// Returns all contexts, by their names.
    pub(crate) fn all(&self) -> &BTreeMap<String, Context> {
        &self.contexts
    }

    /// Returns a context by its name.
    pub(crate) fn find(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "there are none; make one with `redgrid context set`".into()
            } else {
                known.join(", ")
            };
            Failure::usage(format!(
                "there is no context `{}` in {}; known: {known}",
                printable(name),
                self.path.display()
            ))
        })
    }

    /// Adds or replaces a context.
    pub(crate) fn set(&mut self, name: &str, context: Context) -> Result<(), Failure> {
        check_name(name)?;
        self.contexts.insert(name.to_owned(), context);
        Ok(())
    }

    /// Makes a context the one in use.
    pub(crate) fn make_current(&mut self, name: &str) -> Result<(), Failure> {
        self.find(name)?;
        self.current = Some(name.to_owned());
        Ok(())
    }

    /// Removes a context. If it was in use, none is.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.find(name)?;
        self.contexts.remove(name);
        self.current.take_if(|current| current.as_str() == name);
        Ok(())
    }

    /// Replaces the file by one that only this user may read.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let Some(folder) = self.path.parent() else {
            return Err(Failure::usage("no folder for the contexts is known; set HOME or XDG_CONFIG_HOME"));
        };
        let contexts = self.contexts.iter().map(|(name, context)| (name.as_str(), context.written())).collect();
        let written = toml::to_string(&Written { current: self.current.as_deref(), contexts });
        let text = written.map_err(|error| Failure::broken(format!("the contexts could not be written: {error}")))?;
        let saved = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            // A temporary file has mode 0600, and its rename leaves no half-written file.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            io::Result::Ok(())
        };
        saved().map_err(|error| Failure::usage(format!("cannot write {}: {error}", self.path.display())))
    }
}

impl Context {
    fn parse(value: Value) -> Result<Self, String> {
        let Value::Table(fields) = value else { return Err("expected a table".into()) };
        let mut servers = Vec::new();
        let mut context = (None, false);
        for (key, value) in fields {
            match (key.as_str(), value) {
                ("url", Value::String(url)) => servers.push(ContextServers::Url(url)),
                ("url_file", Value::String(file)) => servers.push(ContextServers::UrlFile(file.into())),
                ("config", Value::String(file)) => servers.push(ContextServers::Config(file.into())),
                ("namespace", Value::String(namespace)) => context.0 = Some(namespace),
                ("production", Value::Boolean(is_production)) => context.1 = is_production,
                ("url" | "url_file" | "config" | "namespace", other) => {
                    return Err(format!("`{key}`: expected a text, got a value of type {}", other.type_str()));
                }
                ("production", other) => {
                    return Err(format!("`{key}`: expected true or false, got a value of type {}", other.type_str()));
                }
                (key, _) => {
                    return Err(format!(
                        "`{}` is not known; expected url, url_file or config, and namespace, production",
                        printable(key)
                    ));
                }
            }
        }
        match (servers.pop(), servers.is_empty()) {
            (Some(servers), true) => Ok(Context { servers, namespace: context.0, is_production: context.1 }),
            (None, _) => Err("expected one of url, url_file and config".into()),
            (Some(_), false) => Err("expected only one of url, url_file and config".into()),
        }
    }

    fn written(&self) -> WrittenContext<'_> {
        let mut written = WrittenContext {
            url: None,
            url_file: None,
            config: None,
            namespace: self.namespace.as_deref(),
            production: self.is_production,
        };
        match &self.servers {
            ContextServers::Url(url) => written.url = Some(url),
            ContextServers::UrlFile(file) => written.url_file = Some(file),
            ContextServers::Config(file) => written.config = Some(file),
        }
        written
    }
}

/// Fails unless it can be a name: letters, digits, `-`, `_` and `.`.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let is_valid = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_valid) {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_NAME).collect();
    let shown = printable(&shown);
    Err(Failure::usage(format!(
        "a context is named by 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`, not by `{shown}`"
    )))
}

/// Returns the path of the file; `None` if the folder of the user is not known.
fn path() -> Result<Option<PathBuf>, Failure> {
    let folder = match (variable("XDG_CONFIG_HOME")?, variable("HOME")?) {
        // A relative path is invalid there.
        (Some(folder), _) if Path::new(&folder).is_absolute() => PathBuf::from(folder),
        (_, Some(home)) => Path::new(&home).join(".config"),
        (_, None) => return Ok(None),
    };
    Ok(Some(folder.join("redgrid").join("contexts.toml")))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot read the contexts in {}: {error}", path.display()))
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("cannot use the contexts in {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ContextFile, String> {
        ContextFile::parse("contexts.toml".into(), text).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let mut file = parse("").unwrap();
        let servers = ContextServers::Url("redis://ann:s\"3cret@h".into());
        file.set("prod", Context { servers, namespace: Some("orders".into()), is_production: true }).unwrap();
        file.make_current("prod").unwrap();
        let contexts = file.contexts.iter().map(|(name, context)| (name.as_str(), context.written())).collect();
        let text = toml::to_string(&Written { current: file.current.as_deref(), contexts }).unwrap();
        let again = parse(&text).unwrap();
        let (name, context) = again.current().expect("one is in use");
        assert_eq!((name, context.namespace.as_deref(), context.is_production), ("prod", Some("orders"), true));
        assert!(matches!(&context.servers, ContextServers::Url(url) if url == "redis://ann:s\"3cret@h"));
    }

    #[test]
    fn errors_name_the_place_and_never_a_value() {
        for (text, words) in [
            ("current = 's3cret'", "`current`: there is no context"),
            ("[contexts.a]\nurl = 's3cret", "line 2: "),
            ("[contexts.a]\nurl = 's3cret'\nproduction = 's3cret'", "the context `a`: `production`: expected true"),
            ("[contexts.a]\nurl = ['s3cret']", "`url`: expected a text, got a value of type array"),
            ("[contexts.a]\nurl = 's3cret'\nconfig = 's3cret'", "only one of url, url_file and config"),
            ("[contexts.a]\nnamespace = 's3cret'", "expected one of url, url_file and config"),
            ("[contexts.a]\nuri = 's3cret'", "`uri` is not known"),
            ("[contexts.'a b']\nurl = 's3cret'", "letters, digits"),
            ("contexts = 's3cret'", "`contexts`: expected tables"),
            ("kontexts = 's3cret'", "`kontexts`: expected `current`"),
        ] {
            let error = parse(text).err().expect(text);
            assert!(
                error.starts_with("cannot use the contexts in contexts.toml: ") && error.contains(words),
                "{error}"
            );
            assert!(!error.contains("s3cret") || text.starts_with("current"), "{error}");
        }
    }
}
