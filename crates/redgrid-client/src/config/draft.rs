//! An intermediate configuration, into which every source writes its settings one by one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::access::{Access, Secret, Tls};
use super::check;
use super::error::{ConfigError, Origin};
use super::form::Value;
use super::network::{Network, Socks};
use super::servers::{Address, MasterSlave, Sentinel, Servers};
use super::settings::{
    Durability, Introspection, Protocol, ReadMode, Settings, ShardedSubscriptions, SubscriptionMode,
};
use super::table::TABLE;
use super::{Config, Notes};
use crate::name::Namespace;

#[derive(Clone, Default)]
pub(super) struct Draft {
    pub(super) single: Option<Address>,
    pub(super) unix: Option<PathBuf>,
    pub(super) primary: Option<Address>,
    pub(super) replicas: Vec<Address>,
    pub(super) replicated: Vec<Address>,
    pub(super) sentinels: Vec<Address>,
    pub(super) master_name: Option<String>,
    /// The login at the sentinels.
    pub(super) sentinel_access: Access,
    pub(super) cluster: Vec<Address>,
    /// The login at the servers. `finish` sets `access.database` and `access.tls`.
    pub(super) access: Access,
    pub(super) database: u32,
    pub(super) tls: bool,
    pub(super) tls_options: Tls,
    pub(super) read_mode: usize,
    pub(super) subscription_mode: usize,
    pub(super) sharded_subscriptions: usize,
    pub(super) protocol: usize,
    pub(super) introspection: usize,
    pub(super) durability: usize,
    pub(super) durability_at_least: u32,
    pub(super) durability_timeout: Duration,
    pub(super) namespace: Option<String>,
    pub(super) client_name: Option<String>,
    pub(super) socks_proxy: Option<Address>,
    pub(super) socks_username: Option<String>,
    pub(super) socks_password: Option<Secret>,
    /// The address map, the resolver and the dialer. `finish` sets `network.socks`.
    pub(super) network: Network,
    /// The other settings. If a setting also has a field above, `finish` sets it from that field.
    pub(super) settings: Settings,
}

const READ_MODES: [ReadMode; 3] = [ReadMode::Primary, ReadMode::Replica, ReadMode::Any];
const SUBSCRIPTION_MODES: [SubscriptionMode; 2] = [SubscriptionMode::Primary, SubscriptionMode::Replica];
const SHARDED: [ShardedSubscriptions; 3] =
    [ShardedSubscriptions::Auto, ShardedSubscriptions::On, ShardedSubscriptions::Off];
const PROTOCOLS: [Protocol; 3] = [Protocol::Auto, Protocol::Resp3, Protocol::Resp2];
const INTROSPECTION: [Introspection; 3] = [Introspection::Full, Introspection::Counts, Introspection::Off];

impl From<&Config> for Draft {
    fn from(config: &Config) -> Self {
        let Config { servers, access, settings, network, .. } = config;
        let socks = network.socks.as_ref();
        let mut draft = Draft {
            access: access.clone(),
            database: access.database.into(),
            tls: access.tls.is_some(),
            tls_options: access.tls.clone().unwrap_or_default(),
            read_mode: index(&READ_MODES, settings.read_mode),
            subscription_mode: index(&SUBSCRIPTION_MODES, settings.subscription_mode),
            sharded_subscriptions: index(&SHARDED, settings.sharded_subscriptions),
            protocol: index(&PROTOCOLS, settings.protocol),
            introspection: index(&INTROSPECTION, settings.introspection),
            namespace: Some(settings.namespace.as_str().to_owned()).filter(|text| !text.is_empty()),
            client_name: Some(settings.client_name.clone()),
            socks_proxy: socks.map(|socks| socks.address.clone()),
            socks_username: socks.and_then(|socks| socks.username.clone()),
            socks_password: socks.and_then(|socks| socks.password.clone()),
            network: network.clone(),
            settings: settings.clone(),
            ..Draft::of_defaults()
        };
        match settings.durability {
            Durability::Primary => {}
            Durability::Replicas { at_least, timeout } => {
                (draft.durability, draft.durability_at_least, draft.durability_timeout) = (1, at_least, timeout);
            }
            Durability::Disk { timeout } => (draft.durability, draft.durability_timeout) = (2, timeout),
        }
        match servers.clone() {
            Servers::Single(address) => draft.single = Some(address),
            Servers::Unix(path) => draft.unix = Some(path),
            Servers::MasterSlave(MasterSlave { primary, replicas }) => {
                (draft.primary, draft.replicas) = (Some(primary), replicas);
            }
            Servers::Replicated(nodes) => draft.replicated = nodes,
            Servers::Sentinel(Sentinel { sentinels, master_name, username, password, provider }) => {
                (draft.sentinels, draft.master_name) = (sentinels, Some(master_name));
                draft.sentinel_access = Access { username, password, provider, ..Access::default() };
            }
            Servers::Cluster(seeds) => draft.cluster = seeds,
        }
        draft
    }
}

impl Draft {
    /// Returns the draft of a configuration with all defaults and no servers.
    pub(super) fn of_defaults() -> Self {
        let mut draft = Draft::default();
        for setting in TABLE.iter().filter(|setting| !setting.default.is_empty()) {
            // A test checks that each default can be parsed.
            let _ = setting.form.read(&Value::One(setting.default.into()), &mut draft);
        }
        draft
    }

    /// Builds the configuration.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if settings are missing or contradict each other.
    pub(super) fn finish(self, notes: Notes) -> Result<Config, ConfigError> {
        check::all(&self, &notes.origins)?;
        let timeout = self.durability_timeout;
        let durability = match self.durability {
            1 => Durability::Replicas { at_least: self.durability_at_least, timeout },
            2 => Durability::Disk { timeout },
            _ => Durability::Primary,
        };
        let settings = Settings {
            read_mode: READ_MODES.get(self.read_mode).copied().unwrap_or_default(),
            subscription_mode: SUBSCRIPTION_MODES.get(self.subscription_mode).copied().unwrap_or_default(),
            sharded_subscriptions: SHARDED.get(self.sharded_subscriptions).copied().unwrap_or_default(),
            protocol: PROTOCOLS.get(self.protocol).copied().unwrap_or_default(),
            introspection: INTROSPECTION.get(self.introspection).copied().unwrap_or_default(),
            durability,
            namespace: Namespace::new(self.namespace.unwrap_or_default()).map_err(ConfigError::Namespace)?,
            client_name: self.client_name.unwrap_or_default(),
            ..self.settings
        };
        // `check::all` has checked the bounds: the database is at most 255.
        let database = u8::try_from(self.database).unwrap_or(u8::MAX);
        let access = Access { database, tls: self.tls.then_some(self.tls_options), ..self.access };
        let servers = if let Some(address) = self.single {
            Servers::Single(address)
        } else if let Some(path) = self.unix {
            Servers::Unix(path)
        } else if let Some(primary) = self.primary {
            Servers::MasterSlave(MasterSlave { primary, replicas: self.replicas })
        } else if !self.replicated.is_empty() {
            Servers::Replicated(self.replicated)
        } else if let Some(master_name) = self.master_name {
            let Access { username, password, provider, .. } = self.sentinel_access;
            Servers::Sentinel(Sentinel { sentinels: self.sentinels, master_name, username, password, provider })
        } else {
            Servers::Cluster(self.cluster)
        };
        let (username, password) = (self.socks_username, self.socks_password);
        let socks = self.socks_proxy.map(|address| Socks { address, username, password });
        let network = Network { socks, ..self.network };
        Ok(Config { servers, access, settings, network, notes })
    }
}

/// Returns the index of `chosen` in `choices`; 0 if it is not one of them.
fn index<T: PartialEq>(choices: &[T], chosen: T) -> usize {
    choices.iter().position(|choice| *choice == chosen).unwrap_or_default()
}

/// The origins of settings, by name. Only settings that a source or code has set are included.
pub(super) type Origins = BTreeMap<&'static str, Origin>;
