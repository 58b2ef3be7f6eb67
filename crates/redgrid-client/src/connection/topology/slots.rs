//! The slot map as a cluster reports it.

use crate::config::Address;
use crate::connection::Reply;
use crate::connection::slot::SLOTS;
use crate::error::ServerError;

/// A range of slots that are served by the same nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Address,
    pub(super) replicas: Vec<Address>,
}

/// Reads the reply to CLUSTER SLOTS of the server at `host`.
///
/// The reply is an array of ranges. Each range is an array of its first slot, its last slot and its
/// nodes; each node is an array of address, port and more. The first node of a range is the
/// primary. A server that does not know its own address omits the address. In that case `host` is
/// used.
pub(super) fn read(reply: Reply, host: &str) -> Result<Vec<Range>, ServerError> {
    let ranges = reply.into_typed::<Vec<Vec<Reply>>>()?;
    ranges.into_iter().map(|range| range_of(range, host)).collect()
}

fn range_of(range: Vec<Reply>, host: &str) -> Result<Range, ServerError> {
    let misfit = |got: &[Reply]| Reply::Array(got.to_vec()).misfit("first slot, last slot, nodes");
    let [first, last, nodes @ ..] = &range[..] else { return Err(misfit(&range)) };
    let slot = |reply: &Reply| {
        reply.clone().into_typed::<u64>().ok().and_then(|slot| u16::try_from(slot).ok()).filter(|slot| *slot < SLOTS)
    };
    let mut nodes = nodes.iter().map(|node| address_of(node, host)).collect::<Option<Vec<_>>>().into_iter().flatten();
    let (Some(first), Some(last), Some(primary)) = (slot(first), slot(last), nodes.next()) else {
        return Err(misfit(&range));
    };
    if first > last {
        return Err(misfit(&range));
    }
    Ok(Range { first, last, primary, replicas: nodes.collect() })
}

fn address_of(node: &Reply, host: &str) -> Option<Address> {
    let Reply::Array(parts) = node else { return None };
    let named = match parts.first()? {
        Reply::Bytes(name) => std::str::from_utf8(name).ok()?,
        Reply::Nil => "",
        _ => return None,
    };
    let port = parts.get(1)?.clone().into_typed::<u64>().ok()?;
    let host = if matches!(named, "" | "?") { host } else { named };
    Some(Address::new(host, u16::try_from(port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Reply {
        Reply::Bytes(text.into())
    }

    fn node(host: Reply, port: i64) -> Reply {
        Reply::Array(vec![host, Reply::Int(port), bytes("id"), Reply::Array(Vec::new())])
    }

    #[test]
    fn the_first_node_is_the_primary_and_no_name_means_the_asked_node() {
        let range = vec![
            Reply::Int(0),
            Reply::Int(5460),
            node(bytes("10.0.0.1"), 7000),
            node(bytes(""), 7003),
            node(Reply::Nil, 7004),
        ];
        let read = read(Reply::Array(vec![Reply::Array(range)]), "here").unwrap();
        let replicas = vec![Address::new("here", 7003), Address::new("here", 7004)];
        assert_eq!(read, [Range { first: 0, last: 5460, primary: Address::new("10.0.0.1", 7000), replicas }]);
    }

    #[test]
    fn other_replies_than_a_slot_map_are_refused() {
        for bad in [
            Reply::Int(1),
            Reply::Array(vec![Reply::Int(1)]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(1)])]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(70_000), node(bytes("a"), 1)])]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(1), node(bytes("a"), 70_000)])]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(16_384), node(bytes("a"), 1)])]),
            Reply::Array(vec![Reply::Array(vec![Reply::Int(2), Reply::Int(1), node(bytes("a"), 1)])]),
        ] {
            assert!(read(bad.clone(), "here").is_err(), "{bad:?}");
        }
    }
}
