//! The requests of some connections, as a monitor has seen them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use redgrid_testkit::SeenCommand;

/// How the source of a command inside a script is shown.
const LUA: &str = "lua";

/// The keys of the script that describes an object for the search: its own, and eight companions.
const CLASSIFIED_KEYS: &str = "9";

/// The requests and commands that some connections have sent. Commands of scripts belong to the
/// request of the script.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Requests, without those of the search.
    pub(crate) requests: usize,
    /// Commands, without those of the search: the requests, and the commands inside their scripts.
    pub(crate) commands: usize,
    /// Pages of keys that the search has read.
    pub(crate) scans: usize,
    /// All requests of the search, and the commands inside its scripts.
    pub(crate) search_commands: usize,
    /// The objects that were read by a script of one key.
    pub(crate) read: BTreeSet<String>,
    /// The pings of each connection.
    pings: BTreeMap<String, usize>,
}

impl Traffic {
    pub(crate) fn of(seen: &[SeenCommand], connections: &HashSet<String>) -> Self {
        let mut traffic = Traffic::default();
        let (mut is_ours, mut is_search) = (false, false);
        for command in seen {
            let is_request = command.source != LUA;
            if is_request {
                (is_ours, is_search) = (connections.contains(&command.source), is_search_request(command));
            }
            match (is_ours, is_search) {
                (false, _) => {}
                (true, true) => traffic.search_commands += 1,
                (true, false) => traffic.commands += 1,
            }
            if is_ours && is_request {
                traffic.add_request(command, is_search);
            }
        }
        traffic
    }

    fn add_request(&mut self, request: &SeenCommand, is_search: bool) {
        self.requests += usize::from(!is_search);
        self.scans += usize::from(request.name == "SCAN");
        if is_ping(request) {
            *self.pings.entry(request.source.clone()).or_default() += 1;
        }
        if let [_, keys, key, ..] = &request.args[..]
            && is_script(&request.name)
            && *keys == "1"
        {
            self.read.insert(String::from_utf8_lossy(key).into_owned());
        }
    }

    /// Returns whether an object was read whose name begins so, apart from the lock with a page.
    pub(crate) fn has_read(&self, prefix: &str) -> bool {
        self.read.iter().any(|name| name.starts_with(prefix) && name != "job:1")
    }

    /// Returns the number of pings.
    pub(crate) fn pings(&self) -> usize {
        self.pings.values().sum()
    }

    /// Returns the number of pings of the connection with the most of them.
    pub(crate) fn most_pings(&self) -> usize {
        self.pings.values().copied().max().unwrap_or_default()
    }
}

/// Whether a request is a ping. That of a connection to a server with data is TIME.
fn is_ping(request: &SeenCommand) -> bool {
    matches!(request.name.as_str(), "PING" | "TIME")
}

fn is_script(name: &str) -> bool {
    matches!(name, "EVAL" | "EVALSHA")
}

fn is_search_request(request: &SeenCommand) -> bool {
    is_of_search(&request.name, request.args.get(1).map(|keys| &keys[..]))
}

/// Whether a request reads a page of keys, or describes an object that was found there. `keys` is
/// its second argument: of a script, the number of its keys.
pub(crate) fn is_of_search(name: &str, keys: Option<&[u8]>) -> bool {
    name == "SCAN" || is_script(name) && keys == Some(CLASSIFIED_KEYS.as_bytes())
}
