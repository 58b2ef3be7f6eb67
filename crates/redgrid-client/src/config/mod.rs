//! The settings of a client: plain structs, and one table of names and bounds.
//!
//! A configuration comes from code ([`Config::single`] and others), a URL ([`Config::from_url`]), a
//! file ([`Config::from_file`], including Redisson's own files) or the environment
//! ([`Config::from_env`]). All sources except Redisson's files use the same names of settings.
//! These names are listed in docs/operating/configuration.md.

mod access;
mod build;
mod check;
mod draft;
mod env;
mod error;
mod explain;
#[cfg(feature = "config-files")]
mod file;
mod form;
mod hints;
mod layer;
pub(crate) mod network;
#[cfg(feature = "config-files")]
mod redisson;
mod servers;
pub(crate) mod settings;
mod table;
mod url;

#[cfg(test)]
mod tests;

use std::ffi::OsString;

pub use access::{Access, CredentialProvider, Credentials, Provider, Secret, Tls};
pub use error::{ConfigError, Origin, Warning};
pub use explain::{Explained, reference};
pub(crate) use network::Network;
pub use network::{Dialer, Resolver, Stream};
pub use servers::{Address, MasterSlave, Sentinel, Servers};
pub(crate) use settings::Settings;
pub use settings::{
    Durability, Introspection, LONGEST_LEASE, Protocol, ReadMode, SHORTEST_LEASE, ShardedSubscriptions,
    SubscriptionMode,
};

/// The crate rustls, in the version that [`Tls::client_config`] requires.
#[cfg(feature = "tls")]
pub use ::rustls;

use draft::{Draft, Origins};
use form::Value;
use layer::Layer;

/// The configuration of a client: its servers, how it reaches them, and how it behaves.
///
/// ```
/// use std::time::Duration;
/// use redgrid_client::Config;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::from_url("redis://:secret@127.0.0.1:6379/2")?
///     .namespace("prod")?
///     .response_timeout(Duration::from_secs(1));
/// assert!(!format!("{config:?}").contains("secret"));
///
/// let url = "redis-sentinel://10.0.0.1,10.0.0.2/orders?read_mode=replica&response_timeout=500ms";
/// let config = Config::from_url(url)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) servers: Servers,
    pub(crate) access: Access,
    pub(crate) settings: Settings,
    pub(crate) network: Network,
    notes: Notes,
}

/// Information about a configuration, apart from its settings.
#[derive(Clone, Debug, Default)]
struct Notes {
    origins: Origins,
    warnings: Vec<Warning>,
    codec: Option<String>,
}

impl Config {
    /// Creates a configuration for one server at `host:port` (default port 6379), without a
    /// password.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the address is empty or the port is invalid.
    pub fn single(address: impl AsRef<str>) -> Result<Self, ConfigError> {
        Config::of([("single", Value::One(address.as_ref().to_owned()))])
    }

    /// Creates a configuration for a fixed primary and its replicas, each at `host:port`. No
    /// replica is promoted automatically.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_client::{Config, config::ReadMode};
    ///
    /// let config = Config::master_slave("10.0.0.1:6379", ["10.0.0.2:6379"])?
    ///     .read_mode(ReadMode::Replica);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if an address is invalid.
    pub fn master_slave<A: AsRef<str>>(
        primary: impl AsRef<str>,
        replicas: impl IntoIterator<Item = A>,
    ) -> Result<Self, ConfigError> {
        let primary = ("primary", Value::One(primary.as_ref().to_owned()));
        match many(replicas) {
            Value::Many(none) if none.is_empty() => Config::of([primary]),
            replicas => Config::of([primary, ("replicas", replicas)]),
        }
    }

    /// Creates a configuration for a primary and its replicas, each at `host:port`, in any order.
    ///
    /// The client queries the role of each node at every [`scan_interval`](Config::scan_interval),
    /// and whenever there is a sign that the primary has changed. Use this for a managed service
    /// without sentinels, if each of its nodes has an address of its own.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if there is no node, or an address is invalid.
    pub fn replicated<A: AsRef<str>>(nodes: impl IntoIterator<Item = A>) -> Result<Self, ConfigError> {
        Config::of([("replicated", many(nodes))])
    }

    /// Creates a configuration for the primary that these sentinels (`host:port`, default port
    /// 26379) monitor under the name `master_name`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if there is no sentinel, or an address is invalid.
    pub fn sentinel<A: AsRef<str>>(
        master_name: impl Into<String>,
        sentinels: impl IntoIterator<Item = A>,
    ) -> Result<Self, ConfigError> {
        Config::of([("master_name", Value::One(master_name.into())), ("sentinels", many(sentinels))])
    }

    /// Creates a configuration for the cluster of these nodes (`host:port`). The list may be
    /// incomplete: any node that answers reports all others.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if there is no node, or an address is invalid.
    pub fn cluster<A: AsRef<str>>(seeds: impl IntoIterator<Item = A>) -> Result<Self, ConfigError> {
        Config::of([("cluster", many(seeds))])
    }

    /// Creates a configuration for a server on this machine, reached through its Unix socket.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the path is empty or not UTF-8.
    pub fn unix(path: impl AsRef<std::path::Path>) -> Result<Self, ConfigError> {
        Config::of([("unix", Value::One(path.as_ref().to_str().unwrap_or_default().to_owned()))])
    }

    fn of<const N: usize>(values: [(&'static str, Value); N]) -> Result<Self, ConfigError> {
        let mut layer = Layer::default();
        for (key, value) in values {
            layer.set(key, value, Origin::Code { key })?;
        }
        layer::assemble([layer])
    }

    /// Reads a URL: `redis://`, `redis-sentinel://`, `redis-cluster://`, `redis-master-slave://`,
    /// `redis-replicated://` or `redis+unix://`, optionally followed by `?` and settings.
    ///
    /// ```text
    /// redis://[user[:password]@]host[:port][/database]
    /// redis-sentinel://[user[:password]@]host[:port],…/master name[/database]
    /// redis-cluster://[user[:password]@]host[:port],…
    /// redis-master-slave://[user[:password]@]primary[:port],replica[:port],…[/database]
    /// redis-replicated://[user[:password]@]host[:port],…[/database]
    /// redis+unix://[user[:password]@]/path/of/the/socket          (unix:///path, too)
    /// ```
    ///
    /// A scheme with `rediss` instead of `redis` encrypts the connections. `valkey` and `valkeys`
    /// mean the same as `redis` and `rediss`. Settings are written as in
    /// `?response_timeout=1s&namespace=prod&read_mode=replica`.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the invalid part and what was expected. It never contains a password.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self, ConfigError> {
        layer::assemble([url::read(url.as_ref(), "the URL")?])
    }

    /// Reads a YAML, TOML or JSON file. The extension (`yaml`, `yml`, `toml`, `json`) determines
    /// the format. Each setting is one key of the file; the value of the key `url` is a whole URL.
    /// A configuration file of Redisson (YAML or JSON) is recognised by its keys, and can be used
    /// unchanged.
    ///
    /// Entries that have no effect in redgrid are logged, and returned by
    /// [`warnings`](Config::warnings).
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the file, the key, and what was expected.
    #[cfg(feature = "config-files")]
    pub fn from_file(path: impl AsRef<std::path::Path>) -> Result<Self, ConfigError> {
        let config = layer::assemble(file::read(path.as_ref(), &env::variable)?)?;
        config.log_warnings();
        Ok(config)
    }

    /// Reads three sources: the file at the path in `REDGRID_CONFIG`, then the URL in
    /// `REDGRID_URL`, then one variable per setting, such as `REDGRID_RESPONSE_TIMEOUT=1s`. A later
    /// source overrides an earlier one.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the variable, and what was expected; its text must be UTF-8. An
    /// unknown variable with the prefix `REDGRID_` is an error if its name resembles a setting of
    /// redgrid, or is a setting of another library. Otherwise it causes a warning, because other
    /// software, such as Kubernetes, can set variables with this prefix.
    pub fn from_env() -> Result<Self, ConfigError> {
        // No setting has a name that is not UTF-8.
        Config::from_variables(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))))
    }

    /// Does the same as [`Config::from_env`] with the given variables, for tests or for variables
    /// from another source.
    ///
    /// # Errors
    ///
    /// The errors of [`Config::from_env`].
    pub fn from_variables<V: Into<OsString>>(
        variables: impl IntoIterator<Item = (String, V)>,
    ) -> Result<Self, ConfigError> {
        let variables = variables.into_iter().map(|(name, value)| (name, value.into())).collect();
        let config = layer::assemble(env::read(&variables)?)?;
        config.log_warnings();
        Ok(config)
    }

    fn log_warnings(&self) {
        for warning in &self.notes.warnings {
            tracing::warn!("{warning}");
        }
    }

    /// Returns the same configuration, but with the server at `address` as its only server. The
    /// server may be a primary or a replica. Tools use this to query each node of a deployment
    /// separately.
    pub fn for_server(mut self, address: Address) -> Self {
        self.servers = Servers::Single(address);
        self
    }

    /// Returns the servers.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Returns the login, the database and the encryption.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the warnings: one for each file entry or variable that has no effect in redgrid.
    pub fn warnings(&self) -> &[Warning] {
        &self.notes.warnings
    }

    /// Returns the Java class of the codec with which Java services encode their values. The class
    /// is read from the configuration file of Redisson. If that file sets no codec, the class is
    /// Redisson's default. Returns `None` if the configuration is not from a file of Redisson.
    pub fn implied_codec(&self) -> Option<&str> {
        self.notes.codec.as_deref()
    }

    /// Checks the bounds of all settings, and the rules that concern several settings. A client is
    /// built only if this check succeeds.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let draft = Draft::from(self);
        check::all(&draft, &self.notes.origins)?;
        check::logins(&draft, &self.notes.origins)
    }

    /// Returns the origin of a setting's value.
    pub(crate) fn origin(&self, name: &'static str) -> Origin {
        check::origin(name, &self.notes.origins)
    }
}

fn many<A: AsRef<str>>(addresses: impl IntoIterator<Item = A>) -> Value {
    Value::Many(addresses.into_iter().map(|address| address.as_ref().to_owned()).collect())
}

impl TryFrom<&str> for Config {
    type Error = ConfigError;

    fn try_from(url: &str) -> Result<Self, ConfigError> {
        Config::from_url(url)
    }
}

impl TryFrom<&String> for Config {
    type Error = ConfigError;

    fn try_from(url: &String) -> Result<Self, ConfigError> {
        Config::from_url(url)
    }
}

impl TryFrom<String> for Config {
    type Error = ConfigError;

    fn try_from(url: String) -> Result<Self, ConfigError> {
        Config::from_url(&url)
    }
}
