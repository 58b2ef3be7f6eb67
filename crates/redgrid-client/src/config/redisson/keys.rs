//! The meaning of each key in a file of Redisson. The tables have the keys of Redisson 4.7.0, and
//! keys of 3.x that still occur in files.

/// How a key's value is used. "This setting" means the setting of redgrid in the first field.
#[derive(Clone, Copy)]
pub(super) enum Take {
    /// Milliseconds for this setting.
    Millis(&'static str),
    /// Milliseconds for this setting. In Redisson, 0 means off. redgrid has no such choice: 0
    /// causes a warning, and the setting keeps its default.
    MillisOrOff(&'static str),
    /// The value is copied unchanged to this setting.
    Plain(&'static str),
    /// An address with a scheme. Its host and port are copied to this setting. Only for the setting
    /// named `single`, the address can be a Unix socket; the path of the socket is then copied to
    /// the setting `unix`.
    Address(&'static str),
    /// Several addresses with schemes. Their hosts and ports are copied to this setting.
    Addresses(&'static str),
    /// A word for this setting. The pairs translate Redisson's words to those of redgrid.
    Word(&'static str, &'static [(&'static str, &'static str)]),
    /// The class of a delay strategy. Its first delay is copied to this setting.
    Delay(&'static str),
    /// The class of a codec.
    Codec,
    /// A file with certificates.
    TrustStore,
    /// A setting without an effect: redgrid always behaves like Redisson with the value in the
    /// first field. Any other value causes a warning, whose text is the second field.
    Already(&'static str, &'static str),
    /// A class without an effect in redgrid. The first field names Redisson's default class. Any
    /// other class causes a warning with the text in the second field.
    Class(&'static str, &'static str),
    /// A class that must be Redisson's default class. The first field is the name of that class.
    /// Any other class causes an error, whose text is the second field. If redgrid ignored such a
    /// class, it would use other keys or commands than Java services.
    Vital(&'static str, &'static str),
    /// A key without an effect in redgrid. It causes a warning with the text in the field.
    Ignored(&'static str),
}

/// The section of one topology.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) own: &'static [(&'static str, Take)],
    pub(super) address: &'static str,
    pub(super) has_replicas: bool,
}

/// Sections of topologies that redgrid does not support.
pub(super) const UNSUPPORTED: [&str; 3] =
    ["multiClusterServersConfig", "multiSentinelServersConfig", "proxyServersConfig"];

pub(super) const SECTIONS: [Section; 5] = [
    Section { name: "singleServerConfig", own: SINGLE, address: "address", has_replicas: false },
    Section { name: "sentinelServersConfig", own: SENTINEL, address: "sentinelAddresses", has_replicas: true },
    Section { name: "masterSlaveServersConfig", own: MASTER_SLAVE, address: "masterAddress", has_replicas: true },
    Section { name: "replicatedServersConfig", own: REPLICATED, address: "nodeAddresses", has_replicas: true },
    Section { name: "clusterServersConfig", own: CLUSTER, address: "nodeAddresses", has_replicas: true },
];

const JAVA: &str = "it concerns Java's own threads and classes";
const POOL: &str = "there are no pools here, one connection carries all requests to a node; see `connections_per_node`";
const TLS: &str =
    "this library verifies certificates itself; give PEM files in `tls_ca_file`, `tls_cert_file` and `tls_key_file`";
const VERIFIED: &str = "the server's certificate and its name are always verified";
const TCP: &str = "this library manages its sockets itself; see `ping_interval`";
const SYNC: &str = "the setting `durability` waits for replicas, and rejects a grant that they did not confirm";
const TOPOLOGY: &str = "the topology is always checked";
const OTHER: &str = "it concerns objects that this library does not have, or something that needs no setting here";

use Take::{
    Address, Addresses, Already, Class, Codec, Delay, Ignored, Millis, MillisOrOff, Plain, TrustStore, Vital, Word,
};

type Rows = &'static [(&'static str, Take)];

/// Keys that are allowed both at the top level of a file and in the section of a topology.
pub(super) const COMMON: Rows = &[
    (
        "nameMapper",
        Vital(
            "org.redisson.config.DefaultNameMapper",
            "changes the names of keys with a Java class, so the same locks would have other keys here; if it only adds a prefix, leave it out and set `namespace`",
        ),
    ),
    (
        "commandMapper",
        Vital(
            "org.redisson.config.DefaultCommandMapper",
            "changes the names of commands with a Java class, which cannot be followed here; leave it out if the server knows their usual names",
        ),
    ),
    (
        "credentialsResolver",
        Class(
            "org.redisson.config.DefaultCredentialsResolver",
            "it asks a Java class for the password; here, set a provider in code (`Config::password_from`)",
        ),
    ),
    ("sslVerificationMode", Already("STRICT", VERIFIED)),
    ("sslProvider", Ignored(JAVA)),
    ("sslTruststore", TrustStore),
    ("sslTruststorePassword", Ignored(TLS)),
    ("sslKeystore", Ignored(TLS)),
    ("sslKeystoreType", Ignored(TLS)),
    ("sslKeystorePassword", Ignored(TLS)),
    ("sslProtocols", Ignored(TLS)),
    ("sslCiphers", Ignored(TLS)),
    ("sslTrustManagerFactory", Ignored(TLS)),
    ("sslKeyManagerFactory", Ignored(TLS)),
    ("tcpKeepAlive", Ignored(TCP)),
    ("tcpKeepAliveCount", Ignored(TCP)),
    ("tcpKeepAliveIdle", Ignored(TCP)),
    ("tcpKeepAliveInterval", Ignored(TCP)),
    ("tcpUserTimeout", Ignored(TCP)),
    ("tcpNoDelay", Ignored(TCP)),
    ("username", Plain("username")),
    ("password", Plain("password")),
];

pub(super) const GLOBAL: Rows = &[
    ("lockWatchdogTimeout", Millis("watchdog_lease")),
    ("lockWatchdogBatchSize", Ignored("renewals are sent in batches of 100 names")),
    ("fairLockWaitTimeout", Millis("fair_wait")),
    ("checkLockSyncedSlaves", Ignored(SYNC)),
    ("slavesSyncTimeout", Ignored(SYNC)),
    ("useScriptCache", Already("true", "scripts are always sent by their hash")),
    ("keepPubSubOrder", Already("true", "messages always keep their order")),
    ("codec", Codec),
    ("threads", Ignored(JAVA)),
    ("nettyThreads", Ignored(JAVA)),
    ("transportMode", Ignored(JAVA)),
    ("protocol", Word("protocol", &[("RESP2", "resp2"), ("RESP3", "auto")])),
    ("lazyInitialization", Ignored("a client never waits for its servers; `wait_ready` does")),
    ("referenceEnabled", Ignored(OTHER)),
    ("reliableTopicWatchdogTimeout", Ignored(OTHER)),
    ("minCleanUpDelay", Ignored(OTHER)),
    ("maxCleanUpDelay", Ignored(OTHER)),
    ("cleanUpKeysAmount", Ignored(OTHER)),
    ("executor", Ignored(JAVA)),
    ("eventLoopGroup", Ignored(JAVA)),
    ("nettyHook", Ignored(JAVA)),
    ("nettyExecutor", Ignored(JAVA)),
    ("connectionListener", Ignored(JAVA)),
    ("addressResolverGroupFactory", Ignored(JAVA)),
    ("useThreadClassLoader", Ignored(JAVA)),
    ("valkeyCapabilities", Ignored(JAVA)),
];

/// Keys that are allowed in the section of every topology.
pub(super) const BASE: Rows = &[
    ("timeout", Millis("response_timeout")),
    ("connectTimeout", Millis("connect_timeout")),
    ("idleConnectionTimeout", Ignored(POOL)),
    ("retryAttempts", Plain("retries")),
    ("retryDelay", Delay("retry_delay")),
    ("retryInterval", Millis("retry_delay")),
    ("reconnectionDelay", Ignored("reconnection waits 50 ms to 2 s")),
    ("subscriptionTimeout", Ignored("`response_timeout` applies to subscriptions")),
    ("subscriptionsPerConnection", Ignored("one connection carries all subscriptions of a node")),
    ("pingConnectionInterval", MillisOrOff("ping_interval")),
    ("clientName", Plain("client_name")),
    ("sslEnableEndpointIdentification", Already("true", VERIFIED)),
    ("keepAlive", Ignored(TCP)),
    ("subscriptionConnectionMinimumIdleSize", Ignored(POOL)),
    ("subscriptionConnectionPoolSize", Ignored(POOL)),
    ("dnsMonitoringInterval", Ignored("a host name is looked up anew for every connection")),
    ("dnsMonitoringTimes", Ignored("a host name is looked up anew for every connection")),
    // These keys were removed from Redisson, but still occur in files.
    ("pingTimeout", Ignored("`response_timeout` applies to a PING")),
    ("reconnectionTimeout", Ignored("reconnection waits 50 ms to 2 s")),
    ("failedAttempts", Ignored("a failed node is detected by its connection")),
    ("tlsVersion", Ignored(TLS)),
];

/// Keys that are allowed in the sections of topologies with replicas.
pub(super) const REPLICAS: Rows = &[
    ("readMode", Word("read_mode", &[("SLAVE", "replica"), ("MASTER", "primary"), ("MASTER_SLAVE", "any")])),
    ("subscriptionMode", Word("subscription_mode", &[("SLAVE", "replica"), ("MASTER", "primary")])),
    ("loadBalancer", Class("org.redisson.connection.balancer.RoundRobinLoadBalancer", "replicas are asked in turn")),
    ("masterConnectionMinimumIdleSize", Ignored(POOL)),
    ("masterConnectionPoolSize", Ignored(POOL)),
    ("slaveConnectionMinimumIdleSize", Ignored(POOL)),
    ("slaveConnectionPoolSize", Ignored(POOL)),
    ("slaveSubscriptionConnectionMinimumIdleSize", Ignored(POOL)),
    ("slaveSubscriptionConnectionPoolSize", Ignored(POOL)),
    ("failedSlaveReconnectionInterval", Ignored("reconnection waits 50 ms to 2 s")),
    ("failedSlaveCheckInterval", Ignored("a failed node is detected by its connection")),
    ("failedSlaveNodeDetector", Ignored("a failed node is detected by its connection")),
    ("fallbackLoadingToMaster", Ignored("reads go to the primary if no replica is usable")),
];

const SINGLE: Rows = &[
    ("address", Address("single")),
    ("database", Plain("database")),
    ("connectionMinimumIdleSize", Ignored(POOL)),
    ("connectionPoolSize", Ignored(POOL)),
];

const SENTINEL: Rows = &[
    ("sentinelAddresses", Addresses("sentinels")),
    ("masterName", Plain("master_name")),
    ("sentinelUsername", Plain("sentinel_username")),
    ("sentinelPassword", Plain("sentinel_password")),
    ("database", Plain("database")),
    ("scanInterval", Millis("scan_interval")),
    ("checkSentinelsList", Ignored(TOPOLOGY)),
    ("checkSlaveStatusWithSyncing", Ignored(TOPOLOGY)),
    ("sentinelsDiscovery", Ignored("further sentinels are always found through the first")),
    ("natMapper", Class("org.redisson.config.DefaultNatMapper", NAT)),
    ("natMap", Ignored(NAT)),
];

const MASTER_SLAVE: Rows = &[
    ("masterAddress", Address("primary")),
    ("slaveAddresses", Addresses("replicas")),
    ("database", Plain("database")),
];

const REPLICATED: Rows = &[
    ("nodeAddresses", Addresses("replicated")),
    ("database", Plain("database")),
    ("scanInterval", Millis("scan_interval")),
    ("monitorIPChanges", Ignored("a host name is looked up anew for every connection")),
    ("natMapper", Class("org.redisson.config.DefaultNatMapper", NAT)),
];

const CLUSTER: Rows = &[
    ("nodeAddresses", Addresses("cluster")),
    ("database", Plain("database")),
    ("scanInterval", Millis("scan_interval")),
    ("checkSlotsCoverage", Ignored(TOPOLOGY)),
    ("checkMasterLinkStatus", Ignored(TOPOLOGY)),
    ("shardedSubscriptionMode", Word("sharded_subscriptions", &[("AUTO", "auto"), ("ON", "on"), ("OFF", "off")])),
    ("natMapper", Class("org.redisson.config.DefaultNatMapper", NAT)),
    ("natMap", Ignored(NAT)),
];

const NAT: &str = "addresses are used as the servers announce them; `address_map` translates them";
