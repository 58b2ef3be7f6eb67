//! Queries to a sentinel, and its answers.

use std::collections::HashMap;

use crate::config::Address;
use crate::connection::{Reply, Request, Server};
use crate::error::ServerError;

/// The report of one sentinel about the primary.
#[derive(Clone)]
pub(super) struct PrimaryReport {
    pub(super) primary: Address,
    pub(super) epoch: u64,
    /// The replica that this sentinel has chosen in a failover that it leads. `None` without such a
    /// failover, and also once that replica is reported as `primary`. In the latter case, `epoch`
    /// is already the number of that failover's election.
    pub(super) elected: Option<Address>,
    /// Whether the sentinel regards the primary as down.
    pub(super) is_down: bool,
}

/// Returns whether a sentinel reports most of the sentinels, including itself, as up.
///
/// A sentinel that is cut off from the other sentinels reports only a minority as up.
pub(super) async fn is_among_most(sentinel: &dyn Server, name: &str) -> bool {
    let others = list(sentinel, "SENTINELS", name).await;
    others.is_ok_and(|others| {
        let up = others.iter().filter(|facts| is_up(facts)).count();
        (up + 1) * 2 > others.len() + 1
    })
}

/// Returns true unless the sentinel reports this server as down.
fn is_up(facts: &Facts) -> bool {
    facts.get("flags").is_none_or(|flags| !flags.contains("down"))
}

fn about(what: &'static str, name: &str) -> Request {
    Request::command("SENTINEL").arg(what).arg(name.to_owned())
}

async fn list(sentinel: &dyn Server, what: &'static str, name: &str) -> Result<Vec<Facts>, ServerError> {
    sentinel.call_one(about(what, name)).await?.into_typed()
}

/// Queries a sentinel for the primary and the number of the latest election.
///
/// As soon as the chosen replica is promoted, the leading sentinel reports the number of that
/// failover's election. But its reply to `MASTER` names the former primary for some seconds more,
/// until all replicas follow the new primary. So the address is queried by a separate command. The
/// election number is queried before and after the address, and must be the same both times.
pub(super) async fn primary_by(sentinel: &dyn Server, name: &str) -> Result<PrimaryReport, ServerError> {
    for _ in 0..MAX_ATTEMPTS {
        let queries = vec![about("MASTER", name), about("GET-MASTER-ADDR-BY-NAME", name), about("MASTER", name)];
        let answers = sentinel.call(queries).await.into_iter().collect::<Result<Vec<Reply>, _>>()?;
        let Ok([before, address, after]) = <[Reply; 3]>::try_from(answers) else {
            return Err(ServerError::unknown("the number of replies differs from the number of requests"));
        };
        let (host, port): (String, String) = address.into_typed()?;
        let port = port.parse().map_err(|_| ServerError::unknown("a sentinel reported no port"))?;
        let (before, after): (Facts, Facts) = (before.into_typed()?, after.into_typed()?);
        let epoch = epoch_in(&before);
        if epoch_in(&after) == epoch {
            let primary = Address::new(host, port);
            let elected = if is_replaced(&after) { elected_by(sentinel, name).await } else { None };
            let elected = elected.filter(|elected| *elected != primary);
            return Ok(PrimaryReport { primary, epoch, elected, is_down: !is_up(&after) });
        }
    }
    Err(ServerError::unknown("a sentinel gave contradictory replies in each attempt"))
}

/// Maximum number of attempts of a query. The query is repeated if the election number changes
/// meanwhile, which happens once per election.
const MAX_ATTEMPTS: usize = 3;

fn epoch_in(facts: &Facts) -> u64 {
    facts.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default()
}

/// Returns whether the sentinel is replacing this primary: most sentinels report it as down, or the
/// failover is planned.
///
/// In a planned failover the former primary keeps answering. Any write that the former primary
/// acknowledges after the promotion is lost.
fn is_replaced(primary: &Facts) -> bool {
    has_flag(primary, "failover_in_progress")
}

/// Returns the replica that a sentinel has chosen and ordered to become a primary.
async fn elected_by(sentinel: &dyn Server, name: &str) -> Option<Address> {
    let all = list(sentinel, "REPLICAS", name).await.ok()?;
    all.iter().find(|facts| has_flag(facts, "promoted")).and_then(address_in)
}

fn has_flag(facts: &Facts, flag: &str) -> bool {
    facts.get("flags").is_some_and(|flags| flags.split(',').any(|name| name == flag))
}

type Facts = HashMap<String, String>;

fn address_in(facts: &Facts) -> Option<Address> {
    Some(Address::new(facts.get("ip")?.as_str(), facts.get("port")?.parse().ok()?))
}

/// Returns two lists: the replicas that the sentinel does not report as down, and the other
/// replicas.
pub(super) async fn replicas_by(
    sentinel: &dyn Server,
    name: &str,
) -> Result<(Vec<Address>, Vec<Address>), ServerError> {
    let all = list(sentinel, "REPLICAS", name).await?;
    let (up, down): (Vec<_>, Vec<_>) = all.iter().partition(|facts| is_up(facts));
    let addresses = |of: Vec<&Facts>| of.into_iter().filter_map(address_in).collect();
    Ok((addresses(up), addresses(down)))
}

pub(super) async fn others_by(sentinel: &dyn Server, name: &str) -> Result<Vec<Address>, ServerError> {
    Ok(list(sentinel, "SENTINELS", name).await?.iter().filter_map(address_in).collect())
}

#[cfg(test)]
mod tests {
    use super::{Facts, is_replaced};

    #[test]
    fn a_primary_is_replaced_if_it_is_down_or_as_planned() {
        let facts = |flags: &str| Facts::from([("flags".to_owned(), flags.to_owned())]);
        assert!(is_replaced(&facts("s_down,o_down,master,disconnected,failover_in_progress")));
        assert!(is_replaced(&facts("master,failover_in_progress")));
        assert!(!is_replaced(&facts("s_down,o_down,master,disconnected")));
    }
}
