//! The lock scripts in Rust: one function for each script, line by line like the Lua of the
//! library.
//!
//! `tests/simulated_network/faithful.rs` compares the two on a real server.

use bytes::Bytes;
use redgrid_core::{Arg, Code, Reply, Request, ServerError};

use super::store::Store;

/// A script or command as a server receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The name of the script or command.
    pub name: String,
    /// `KEYS`.
    pub keys: Vec<Bytes>,
    /// `ARGV`.
    pub args: Vec<Bytes>,
}

impl Call {
    /// Returns the wire form of `request` with the time limit `not_after`.
    pub fn of(request: &Request, not_after: &Bytes) -> Call {
        let argument = |arg: &Arg| match arg {
            Arg::Bytes(bytes) | Arg::Key(bytes) => Some(bytes.clone()),
            Arg::NotAfter => Some(not_after.clone()),
            Arg::Publish => Some(Bytes::from_static(b"PUBLISH")),
            Arg::Sharded => None,
        };
        Call {
            name: request.label().to_owned(),
            keys: request.all_keys().to_vec(),
            args: request.arguments().iter().filter_map(argument).collect(),
        }
    }

    /// Returns an integer argument.
    pub fn int(&self, at: usize) -> i64 {
        std::str::from_utf8(&self.args[at]).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns the holder id, if the script is called for one holder.
    pub fn field(&self) -> Option<&Bytes> {
        let about_one =
            ["lock/acquire", "lock/takeover", "lock/release", "lock/release-yielding", "lock/retain", "lock/extend"];
        about_one.contains(&self.name.as_str()).then(|| &self.args[0])
    }
}

/// Executes a call at the store's current time.
pub fn run(store: &mut Store, call: &Call) -> Result<Reply, ServerError> {
    Ok(match call.name.as_str() {
        "lock/acquire" => acquire(store, call),
        "lock/takeover" => take_over(store, call),
        "lock/release" => release(store, call),
        "lock/release-yielding" => release_yielding(store, call),
        "lock/retain" => retain(store, call),
        "lock/extend" => extend(store, call),
        "lock/renew" => renew(store, call),
        "lock/release-many" => release_many(store, call),
        "lock/inspect" => inspect(store, call),
        "pubsub/ttl" => peek(store, call),
        "pubsub/set-waiting" => mark(store, call),
        "PING" => text("PONG"),
        other => return Err(refused(&format!("ERR the simulated server does not know `{other}`"))),
    })
}

/// Returns an error reply of the server.
pub fn refused(message: &str) -> ServerError {
    ServerError::Refused { code: Code::of(message), message: message.to_owned() }
}

fn text(text: impl Into<Bytes>) -> Reply {
    Reply::Bytes(text.into())
}

/// Returns the reply `{status, time, left}`.
fn status_reply(status: i64, time: u64, left: i64) -> Reply {
    Reply::Array(vec![Reply::Int(status), micros(time), Reply::Int(left)])
}

/// Returns a server time in the format that Lua uses for numbers.
fn micros(time: u64) -> Reply {
    Reply::Int(i64::try_from(time).unwrap_or(i64::MAX))
}

fn is_late(time: u64, call: &Call, at: usize) -> bool {
    i64::try_from(time).is_ok_and(|time| time > call.int(at))
}

fn acquire(store: &mut Store, call: &Call) -> Reply {
    let (key, holder, time) = (&call.keys[0], &call.args[0], store.time());
    if is_late(time, call, 2) {
        return status_reply(2, time, 0);
    }
    if store.exists(key) {
        if !store.hexists(key, holder) {
            return status_reply(0, time, store.pttl(key));
        }
        if store.pttl(key) >= call.int(1) {
            return micros(time);
        }
    }
    store.hset(key, holder, b"1");
    store.pexpire(key, call.int(1));
    micros(time)
}

fn take_over(store: &mut Store, call: &Call) -> Reply {
    let (key, holder, time) = (&call.keys[0], &call.args[0], store.time());
    if is_late(time, call, 2) {
        return status_reply(2, time, 0);
    }
    let holders = store.hgetall(key);
    let holds = |field: &Bytes| holders.iter().any(|(holder, _)| holder == field);
    let known = |expected| usize::from(holds(expected)) + usize::from(holds(holder));
    if call.args.get(5).is_some_and(|expected| known(expected) == 0 || holders.len() > known(expected)) {
        return status_reply(0, time, store.pttl(key));
    }
    if holders.is_empty() && &call.args[3][..] == b"1" {
        return status_reply(0, time, -2);
    }
    store.hset(key, holder, b"1");
    store.pexpire(key, call.int(1));
    let mut lost = 0;
    for (other, _) in holders {
        if other != holder {
            lost += 1;
            store.hdel(key, &other);
            if let Some(client) = client_of(&other) {
                let channel = [&call.args[4][..], client, b"}"].concat();
                store.publish(&channel, other.clone());
            }
        }
    }
    status_reply(1, time, lost)
}

/// Returns the client id: the part of the holder id that Lua matches by
/// `^(%x+%-%x+%-%x+%-%x+%-%x+):`.
fn client_of(field: &[u8]) -> Option<&[u8]> {
    let (client, _) = field.split_at(field.iter().position(|byte| *byte == b':')?);
    let groups: Vec<_> = client.split(|byte| *byte == b'-').collect();
    let hex = |group: &&[u8]| !group.is_empty() && group.iter().all(u8::is_ascii_hexdigit);
    (groups.len() == 5 && groups.iter().all(hex)).then_some(client)
}

fn release(store: &mut Store, call: &Call) -> Reply {
    if store.hdel(&call.keys[0], &call.args[0]) == 0 {
        return Reply::Int(0);
    }
    Reply::Int(1 + store.publish(&call.args[1], "0"))
}

fn release_yielding(store: &mut Store, call: &Call) -> Reply {
    if store.hdel(&call.keys[0], &call.args[0]) == 0 {
        return Reply::Array(vec![Reply::Int(0), Reply::Int(0)]);
    }
    let receivers = store.publish(&call.args[2], "0");
    Reply::Array(vec![Reply::Int(1 + receivers), Reply::Int(i64::from(store.exists(&call.keys[1])))])
}

fn retain(store: &mut Store, call: &Call) -> Reply {
    let (key, holder) = (&call.keys[0], &call.args[0]);
    let kept = [&holder[..], b":kept"].concat().into();
    if !store.hexists(key, holder) {
        return Reply::Int(i64::from(store.hexists(key, &kept)));
    }
    store.pexpire(key, call.int(1));
    store.hset(key, &kept, b"1");
    store.hdel(key, holder);
    store.publish(&call.args[3], "0");
    Reply::Int(1)
}

fn extend(store: &mut Store, call: &Call) -> Reply {
    let (key, time) = (&call.keys[0], store.time());
    let reply = |status| Reply::Array(vec![Reply::Int(status), micros(time)]);
    if is_late(time, call, 2) {
        return reply(2);
    }
    if !store.hexists(key, &call.args[0]) {
        return reply(0);
    }
    store.pexpire(key, call.int(1));
    reply(1)
}

fn renew(store: &mut Store, call: &Call) -> Reply {
    let one = |(i, key): (usize, &Bytes)| {
        let lease = call.int(2 * i + 1);
        let ours = store.hexists(key, &call.args[2 * i]);
        if ours && lease != 0 && store.pttl(key) < lease {
            store.pexpire(key, lease);
        }
        Reply::Int(i64::from(ours))
    };
    Reply::Array(call.keys.iter().enumerate().map(one).collect())
}

fn release_many(store: &mut Store, call: &Call) -> Reply {
    let one = |(i, key): (usize, &Bytes)| {
        let freed = store.hdel(key, &call.args[2 * i + 1]);
        let receivers = if freed == 1 { store.publish(&call.args[2 * i + 2], "0") } else { 0 };
        Reply::Int(freed + receivers)
    };
    Reply::Array(call.keys.iter().enumerate().map(one).collect())
}

fn inspect(store: &mut Store, call: &Call) -> Reply {
    let fields = store.hgetall(&call.keys[0]);
    let front = [text(store.pttl(&call.keys[0]).to_string()), text(fields.len().to_string())];
    let fields = fields.into_iter().flat_map(|(field, value)| [text(field), text(value)]);
    Reply::Array(front.into_iter().chain(fields).collect())
}

fn peek(store: &mut Store, call: &Call) -> Reply {
    Reply::Array(call.keys.iter().map(|key| Reply::Int(store.pttl(key))).collect())
}

fn mark(store: &mut Store, call: &Call) -> Reply {
    call.keys.iter().for_each(|key| store.set_px(key, call.int(0)));
    Reply::Int(i64::try_from(call.keys.len()).unwrap_or(i64::MAX))
}
