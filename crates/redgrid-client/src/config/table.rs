//! The table of settings: names, forms, bounds, and descriptions. Parsing, checks,
//! `redgrid config check` and docs/operating/configuration.md are based on this table.

use std::time::Duration;

use super::draft::Draft;
use super::form::Form;
use super::settings::{LONGEST_LEASE, LONGEST_WINDOW, SHORTEST_LEASE};
use crate::name::Namespace;

/// One setting.
pub(super) struct Setting {
    pub(super) name: &'static str,
    /// The title of the section of the reference that has the setting.
    pub(super) group: &'static str,
    pub(super) form: Form,
    /// The default value as text. It is empty if there is none, or if it is off, 0 or the first
    /// word of a choice.
    pub(super) default: &'static str,
    /// A description, with the effects of larger and smaller values.
    pub(super) about: &'static str,
}

impl Setting {
    /// Returns whether the draft has a value for this setting. A switch has a value if it is on.
    pub(super) fn is_set(&self, draft: &mut Draft) -> bool {
        match self.form {
            Form::Switch(at) => *at(draft),
            _ => self.form.show(draft).is_some(),
        }
    }
}

/// The group of the settings that name the servers.
pub(super) const SERVERS: &str = "Servers";

/// Returns the setting with this name.
pub(super) fn setting(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.name == name)
}

/// Returns the names of all settings.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|setting| setting.name)
}

/// Builds the table from groups of settings. Each setting has a name, a form, possibly a default,
/// and a description.
macro_rules! table {
    ($($group:expr => { $($name:ident: $form:expr $(, $default:literal)? => $about:literal;)* })*) => {
        &[$($(Setting {
            name: stringify!($name), group: $group, form: $form, default: concat!($($default)?), about: $about,
        },)*)*]
    };
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The upper bound of time settings that have no bound of their own. A longer time probably has the
/// wrong unit.
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const READ_MODES: &[&str] = &["primary", "replica", "any"];
pub(super) const SUBSCRIPTION_MODES: &[&str] = &["primary", "replica"];
pub(super) const SHARDED: &[&str] = &["auto", "on", "off"];
pub(super) const PROTOCOLS: &[&str] = &["auto", "resp3", "resp2"];
pub(super) const INTROSPECTION: &[&str] = &["full", "counts", "off"];
pub(super) const DURABILITIES: &[&str] = &["primary", "replicas", "disk"];

use Form::{Address, AddressMap, Addresses, AutoTime, Choice, Count, File, Pem, Secret, Switch, Text, Time};

pub(super) static TABLE: &[Setting] = table! {
    SERVERS => {
        single: Address(|d| &mut d.single, 6379) => "One server.";
        unix: File(|d| &mut d.unix) => "One server on this machine, by the path of its socket.";
        primary: Address(|d| &mut d.primary, 6379) => "The primary of servers with fixed roles: no service promotes a replica.";
        replicas: Addresses(|d| &mut d.replicas, 6379) => "The replicas of that primary, for reads.";
        replicated: Addresses(|d| &mut d.replicated, 6379) =>
            "All nodes of a group without sentinels, in any order. The client finds out which one is the primary.";
        sentinels: Addresses(|d| &mut d.sentinels, 26379) =>
            "The sentinels that monitor the primary. One reachable sentinel is enough.";
        master_name: Text(|d| &mut d.master_name, some) => "The name that the sentinels use for the primary.";
        sentinel_username: Text(|d| &mut d.sentinel_access.username, some) =>
            "The ACL user at the sentinels, if it is not `default`.";
        sentinel_password: Secret(|d| &mut d.sentinel_access.password) =>
            "The password at the sentinels, where the servers' `password` is not used. For a password that changes, set a provider in code.";
        cluster: Addresses(|d| &mut d.cluster, 6379) =>
            "Some nodes of a cluster. One reachable node is enough: it reports all others.";
    }
    "Logging in" => {
        username: Text(|d| &mut d.access.username, some) => "The ACL user, if it is not `default`.";
        password: Secret(|d| &mut d.access.password) => "The password of that user. For a password that changes, set a provider in code.";
        credentials_interval: Time(|d| &mut d.settings.credentials_interval, ms(10), DAY), "10s" =>
            "How often the client calls the provider for the password of open connections. One call serves them all; each new connection calls the provider separately. With a shorter interval, open connections follow a changed password sooner; with a longer one, the client calls the provider less often.";
        database: Count(|d| &mut d.database, 0, 255) => "The number of the database. A cluster has only database 0.";
        tls: Switch(|d| &mut d.tls) => "Whether connections use TLS. The server's certificate and name are always verified.";
        tls_ca_file: File(|d| &mut d.tls_options.ca_file) =>
            "PEM file with the certificate authorities to trust, instead of the system's. This file, `tls_cert_file` and `tls_key_file` are read before each new connection.";
        tls_cert_file: File(|d| &mut d.tls_options.cert_file) => "PEM file with the client's certificate.";
        tls_key_file: File(|d| &mut d.tls_options.key_file) => "PEM file with the private key of that certificate.";
        tls_ca_pem: Pem(|d| &mut d.tls_options.ca_pem) => "The certificate authorities as PEM text, instead of a file.";
        tls_cert_pem: Pem(|d| &mut d.tls_options.cert_pem) => "The client's certificate as PEM text, instead of a file.";
        tls_key_pem: Pem(|d| &mut d.tls_options.key_pem) => "The private key of that certificate as PEM text, instead of a file.";
        tls_server_name: Text(|d| &mut d.tls_options.server_name, some) =>
            "The name in the server's certificate, if it differs from the host that is connected to.";
    }
    "Connections" => {
        response_timeout: Time(|d| &mut d.settings.response_timeout, ms(10), DAY), "3s" =>
            "How long the client waits for one reply. While a long request or reply is being transferred, the wait does not end. A longer time tolerates slow scripts and networks; a shorter one detects a hung server sooner. A call without its own timeout fails after `response_timeout × (retries + 1)` without contact to the server.";
        connect_timeout: Time(|d| &mut d.settings.connect_timeout, ms(10), DAY), "2s" =>
            "How long each step of opening a connection may take: connecting (with DNS), the TLS handshake, and the login. A longer time tolerates distant servers; a shorter one tries the next server sooner.";
        retries: Count(|d| &mut d.settings.retries, 0, 1000), "4" =>
            "How many times a request without a reply is retried, if a retry is safe. With more retries, a call tolerates a longer time without contact; with fewer, it fails sooner.";
        retry_delay: Time(|d| &mut d.settings.retry_delay, ms(1), DAY), "100ms" =>
            "The mean delay before a retry. Each delay is random, from half to one and a half times the mean. A longer delay spares an overloaded server; with a shorter one, calls recover sooner.";
        ping_interval: Time(|d| &mut d.settings.ping_interval, ms(10), DAY), "5s" =>
            "How often an idle connection is pinged. A dead connection is detected after this interval and one `response_timeout`. A shorter interval sends more requests.";
        connections_per_node: Count(|d| &mut d.settings.connections_per_node, 1, 16), "1" =>
            "The number of connections for requests to each node. Subscriptions have a separate connection. Requests are pipelined, so more connections help only if the server has I/O threads. All requests for one name use the same connection.";
        max_in_flight: Count(|d| &mut d.settings.max_in_flight, 1, 65_536), "1024" =>
            "How many requests may be in flight at one node. Further requests wait in the client; that wait is not part of their `response_timeout`. A higher limit takes more memory, and each reply waits behind more others. A limit that is too low leaves a distant server idle between requests.";
        address_map: AddressMap(|d| &mut d.network.address_map, 6379) =>
            "Pairs of addresses, for NAT and port forwarding: one that a server or sentinel announces, and the one to connect to instead. Other addresses are used unchanged.";
        socks_proxy: Address(|d| &mut d.socks_proxy, 1080) =>
            "A SOCKS5 proxy that opens all connections. It also resolves the host names of servers.";
        socks_username: Text(|d| &mut d.socks_username, some) => "The user at the proxy.";
        socks_password: Secret(|d| &mut d.socks_password) => "The password at the proxy.";
        scan_interval: Time(|d| &mut d.settings.scan_interval, ms(10), DAY), "1s" =>
            "How often the client checks the topology if no change is reported. This interval limits how long an unreported change goes unnoticed; a shorter one sends more requests. While a primary does not answer, the client checks more often for one minute, in a cluster and with sentinels: every 100 ms at first, less often after 10 s.";
        read_mode: Choice(READ_MODES, |d| &mut d.read_mode) =>
            "Which nodes answer reads: the primary, the replicas, or all. Replicas are behind the primary by the replication lag. Locks and all writes always use the primary.";
        subscription_mode: Choice(SUBSCRIPTION_MODES, |d| &mut d.subscription_mode) =>
            "Where waiters subscribe: at the primary, or at one of its replicas. A replica takes load off the primary, but each release then sends a request to both. If no replica is usable, waiters subscribe at the primary. All services that share locks need the same value.";
        max_replica_lag: Time(|d| &mut d.settings.max_replica_lag, ms(10), DAY), "1s" =>
            "How far a replica may lag behind its primary and still be used. A usable replica has all data that the primary had this long ago. The client compares replication offsets every `scan_interval`, so it detects a lagging replica up to one interval later. A longer time also uses slow replicas; a shorter one switches to the primary sooner.";
        sharded_subscriptions: Choice(SHARDED, |d| &mut d.sharded_subscriptions) =>
            "Whether a cluster's messages use sharded channels. `auto` uses them if the servers have them, as Redisson does. All services that share locks need the same value.";
        protocol: Choice(PROTOCOLS, |d| &mut d.protocol) =>
            "The version of the protocol. `auto` is RESP3, or RESP2 if a server or proxy rejects `HELLO 3`. With `resp2`, the client never sends `HELLO`, because some proxies close the connection when they receive it.";
    }
    "Holds" => {
        watchdog_lease: Time(|d| &mut d.settings.watchdog_lease, SHORTEST_LEASE, LONGEST_LEASE), "30s" =>
            "The lease of holds that the client renews. It renews them whenever a third of the lease has passed. A longer lease survives longer pauses and failovers; a shorter one frees the locks of a dead process sooner.";
        durability: Choice(DURABILITIES, |d| &mut d.durability) =>
            "Where a grant and its renewals must be stored before they count: in the primary's memory, on replicas, or on the primary's disk. With replicas or the disk, a grant survives more failures, but each grant and renewal waits for one more round trip.";
        durability_at_least: Count(|d| &mut d.durability_at_least, 1, 100), "1" =>
            "With `durability: replicas`, how many replicas must have a grant. For locks that survive any failover, set it to the number of replicas that may be promoted. Then no new grant is possible while one of them is missing.";
        durability_timeout: Time(|d| &mut d.durability_timeout, ms(10), DAY), "1s" =>
            "How long the replicas or the disk may take to confirm a grant. After that, the grant is released. A longer time tolerates lagging replicas; a shorter one reports the failure sooner.";
        fair_wait: Time(|d| &mut d.settings.fair_wait, ms(1000), DAY), "30s" =>
            "How long Java services keep the position of a dead process in the queue of a fair lock; redgrid keeps it for 1 s. It must exceed the difference between the clocks of hosts with Java services, and be the same in all services. With a shorter time, Java services skip dead processes sooner.";
        fair_depth: Count(|d| &mut d.settings.fair_depth, 1, 1000), "16" =>
            "How many waiters of a process have their own positions in the queue of a fair lock. The others wait behind them inside the process. With more positions, a process with more waiters gets the lock more often; fewer positions are less work for the server.";
        local_handover_window: AutoTime(|d| &mut d.settings.handover_window, Duration::ZERO, LONGEST_WINDOW)
            =>
            "How long a lock may pass between the tasks of one process while other processes wait. `auto` is ten round trips, at least 10 ms and at most 500 ms. A longer window is not faster; with a shorter one, processes alternate more often. With `0s`, the lock never passes inside a process: every task sends a request.";
    }
    "Waiting" => {
        poll_interval: Time(|d| &mut d.settings.poll_interval, ms(10), DAY), "1s" =>
            "How often a waiter polls while its subscription is active. It limits the delay that a lost message causes. A longer interval sends fewer requests.";
        poll_budget: Count(|d| &mut d.settings.poll_budget, 1, 1_000_000), "500" =>
            "The maximum number of names that all waiters of a client together poll, per second and node. It limits the load that waiters cause at the server. With a higher limit, they notice a release sooner if its message was lost.";
    }
    "Names" => {
        namespace: Text(|d| &mut d.namespace, namespace) =>
            "The prefix of every key and channel: `namespace:name`. It must have no braces, and at most 256 bytes.";
        client_name: Text(|d| &mut d.client_name, client_name), "redgrid" =>
            "The name of the connections in `CLIENT LIST`: printable ASCII without spaces.";
        introspection: Choice(INTROSPECTION, |d| &mut d.introspection) =>
            "What the client reports when the command line or a console asks it. `full`: its process, what it holds, which names its tasks wait for, and what went wrong lately. `counts`: its process, and the numbers of holds and waiting tasks. `off`: nothing. A report never has values of objects.";
    }
};

fn some(text: &str) -> Result<(), &'static str> {
    if text.is_empty() { Err("at least one character") } else { Ok(()) }
}

fn namespace(text: &str) -> Result<(), &'static str> {
    Namespace::new(text).map(drop).map_err(|invalid| match invalid.rule {
        rule if rule.contains("braces") => "a namespace without braces",
        _ => "a namespace of at most 256 bytes",
    })
}

fn client_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.contains(|c: char| !c.is_ascii_graphic()) {
        Err("printable ASCII without spaces, at least one character")
    } else {
        Ok(())
    }
}
