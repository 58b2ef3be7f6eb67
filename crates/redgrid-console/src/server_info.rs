//! The reply of a primary to `INFO`.

/// The reply of a primary to `INFO`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    /// The address.
    pub(crate) node: String,
    /// The fields that are shown.
    pub(crate) program: String,
    pub(crate) uptime_s: Option<u64>,
    pub(crate) memory: Option<u64>,
    pub(crate) max_memory: Option<u64>,
    pub(crate) eviction: String,
    pub(crate) clients: Option<u64>,
    pub(crate) commands_per_s: Option<u64>,
    pub(crate) evicted: Option<u64>,
    pub(crate) channels: Option<u64>,
    pub(crate) replicas: Option<u64>,
    pub(crate) keys: u64,
}

impl ServerInfo {
    /// Reads the text of `INFO`.
    pub(crate) fn read(node: String, text: &str) -> ServerInfo {
        let mut info = ServerInfo { node, ..ServerInfo::default() };
        let mut version = "";
        let mut name = "Redis";
        for (field, value) in fields(text) {
            let number = || value.parse().ok();
            match field {
                "redis_version" if version.is_empty() => version = value,
                "valkey_version" => (name, version) = ("Valkey", value),
                "uptime_in_seconds" => info.uptime_s = number(),
                "used_memory" => info.memory = number(),
                "maxmemory" => info.max_memory = number().filter(|limit| *limit > 0),
                "maxmemory_policy" => value.clone_into(&mut info.eviction),
                "connected_clients" => info.clients = number(),
                "instantaneous_ops_per_sec" => info.commands_per_s = number(),
                "evicted_keys" => info.evicted = number(),
                "pubsub_channels" => info.channels = number(),
                "connected_slaves" => info.replicas = number(),
                field if is_numbered(field, "db") => {
                    let keys = value.strip_prefix("keys=").and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
                    info.keys = info.keys.saturating_add(keys.unwrap_or(0));
                }
                _ => {}
            }
        }
        info.program = if version.is_empty() { "unknown".to_owned() } else { format!("{name} {version}") };
        info
    }
}

/// Returns the address of each replica in the text of `INFO`, with the bytes of the replication
/// stream that it has not confirmed.
pub(crate) fn replica_lags(text: &str) -> Vec<(String, u64)> {
    let sent = fields(text).find(|(field, _)| *field == "master_repl_offset");
    let Some(sent) = sent.and_then(|(_, offset)| offset.parse::<u64>().ok()) else { return Vec::new() };
    let replicas = fields(text).filter(|(field, _)| is_numbered(field, "slave"));
    let confirmed = replicas.filter_map(|(_, value)| confirmed_offset(value));
    confirmed.map(|(node, offset)| (node, sent.saturating_sub(offset))).collect()
}

fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.trim_end().split_once(':'))
}

/// Returns whether a field of `INFO` is a name with a number, such as `db0`.
fn is_numbered(field: &str, name: &str) -> bool {
    field.strip_prefix(name).is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns a replica's address and confirmed offset: `ip=…,port=…,state=online,offset=…,lag=…`. A
/// replica that is still being copied has confirmed nothing.
///
/// Programs that only read the stream, such as `redis-cli --replica`, have the port 0. They never
/// confirm anything, so they are left out.
fn confirmed_offset(value: &str) -> Option<(String, u64)> {
    let part = |name: &str| value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let (ip, port) = (part("ip")?, part("port").filter(|port| *port != "0")?);
    let node = if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    let is_copied = part("state") == Some("online");
    Some((node, if is_copied { part("offset")?.parse().ok()? } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read() {
        let text = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.0\r\nuptime_in_seconds:12\r\n\
                    used_memory:1048576\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nconnected_slaves:2\r\n\
                    # Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\ndb1:keys=4,expires=0,avg_ttl=0\r\n";
        let info = ServerInfo::read("10.0.0.1:6379".into(), text);
        assert_eq!(info.program, "Valkey 9.1.0");
        assert_eq!((info.keys, info.replicas, info.max_memory), (7, Some(2), None));
        assert_eq!((info.memory, info.uptime_s, info.eviction.as_str()), (Some(1_048_576), Some(12), "noeviction"));
        assert_eq!(ServerInfo::read(String::new(), "nonsense\r\ndb0:x\r\n").program, "unknown");
    }

    #[test]
    fn the_lag_of_each_replica_is_read() {
        let lags = |replica: &str| replica_lags(&format!("slave0:{replica}\r\nmaster_repl_offset:1000\r\n"));
        let one = |node: &str, lag| vec![(node.to_owned(), lag)];
        assert_eq!(lags("ip=10.0.0.2,port=6380,state=online,offset=900,lag=1"), one("10.0.0.2:6380", 100));
        assert_eq!(lags("ip=fd00::2,port=6380,state=online,offset=1000,lag=1"), one("[fd00::2]:6380", 0));
        for state in ["wait_bgsave", "send_bulk"] {
            let copied = format!("ip=10.0.0.2,port=6380,state={state},offset=0,lag=0");
            assert_eq!(lags(&copied), one("10.0.0.2:6380", 1000), "nothing is confirmed yet");
        }
        assert_eq!(lags("ip=10.0.0.9,port=0,state=online,offset=0,lag=7"), [], "it is no replica");
        assert_eq!(replica_lags("slave0:ip=10.0.0.2,port=6380,state=online,offset=900,lag=1\r\n"), []);
    }
}
