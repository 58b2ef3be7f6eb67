//! What a sentinel is asked, and what it tells.

use std::collections::HashMap;

use crate::config::Address;
use crate::connection::{Reply, Request, Server};
use crate::error::ServerError;

/// What one sentinel knows.
#[derive(Clone)]
pub(super) struct Told {
    pub(super) primary: Address,
    /// Counts the elections.
    pub(super) epoch: u64,
    /// The replica that it has chosen, in the failover that it leads and has not counted yet.
    pub(super) elected: Option<Address>,
    /// It takes the primary for down.
    pub(super) is_down: bool,
}

/// Whether a sentinel is in touch with most of those that it knows of, itself included: one that is cut off is not.
pub(super) async fn is_among_most(sentinel: &dyn Server, name: &str) -> bool {
    let others = call(sentinel, about("SENTINELS", name)).await.and_then(|others| others.into_typed::<Vec<Facts>>());
    others.is_ok_and(|others| {
        let up = others.iter().filter(|facts| is_up(facts)).count();
        (up + 1) * 2 > others.len() + 1
    })
}

/// Whether a server is not known to be down.
fn is_up(facts: &Facts) -> bool {
    facts.get("flags").is_none_or(|flags| !flags.contains("down"))
}

async fn call(sentinel: &dyn Server, request: Request) -> Result<Reply, ServerError> {
    let answer = sentinel.call(vec![request]).await.pop();
    answer.unwrap_or_else(|| Err(ServerError::unknown("no result")))
}

fn about(what: &'static str, name: &str) -> Request {
    Request::command("SENTINEL").arg(what).arg(name.to_owned())
}

/// The primary, and by which election. The one that leads an election counts it, and names who has won, as soon as that one
/// is promoted; but until all replicas follow, seconds later, `MASTER` tells the address of the former primary. So the
/// address is asked for by its own command, between two looks at the count that must agree.
pub(super) async fn primary_by(sentinel: &dyn Server, name: &str) -> Result<Told, ServerError> {
    for _ in 0..MOST_LOOKS {
        let questions = vec![about("MASTER", name), about("GET-MASTER-ADDR-BY-NAME", name), about("MASTER", name)];
        let answers = sentinel.call(questions).await.into_iter().collect::<Result<Vec<Reply>, _>>()?;
        let Ok([before, address, after]) = <[Reply; 3]>::try_from(answers) else {
            return Err(ServerError::unknown("not as many answers as questions"));
        };
        let (host, port): (String, String) = address.into_typed()?;
        let port = port.parse().map_err(|_| ServerError::unknown("a sentinel named no port"))?;
        let (before, after): (Facts, Facts) = (before.into_typed()?, after.into_typed()?);
        let epoch = epoch_in(&before);
        if epoch_in(&after) == epoch {
            let primary = Address::new(host, port);
            let elected = match is_replaced(&after) {
                true => elected_by(sentinel, name).await.filter(|elected| *elected != primary),
                false => None,
            };
            return Ok(Told { primary, epoch, elected, is_down: !is_up(&after) });
        }
    }
    Err(ServerError::unknown("a sentinel changed its mind at every look"))
}

/// How often a sentinel is asked in a row that learns of another election between two questions: it happens once in one.
const MOST_LOOKS: usize = 3;

fn epoch_in(facts: &Facts) -> u64 {
    facts.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default()
}

/// Whether the sentinel has another server take the place of this primary: because most say that it is down, or as planned. Where
/// that was planned the former primary goes on to answer, and what it acknowledges after the promotion is lost.
fn is_replaced(primary: &Facts) -> bool {
    has_flag(primary, "failover_in_progress")
}

/// The replica that a sentinel has chosen, and told to be a primary.
async fn elected_by(sentinel: &dyn Server, name: &str) -> Option<Address> {
    let all: Vec<Facts> = call(sentinel, about("REPLICAS", name)).await.ok()?.into_typed().ok()?;
    all.iter().find(|facts| has_flag(facts, "promoted")).and_then(address_in)
}

fn has_flag(facts: &Facts, flag: &str) -> bool {
    facts.get("flags").is_some_and(|flags| flags.split(',').any(|word| word == flag))
}

type Facts = HashMap<String, String>;

fn address_in(facts: &Facts) -> Option<Address> {
    Some(Address::new(facts.get("ip")?.as_str(), facts.get("port")?.parse().ok()?))
}

/// Replicas that are not known to be down, and those that are.
pub(super) async fn replicas_by(
    sentinel: &dyn Server,
    name: &str,
) -> Result<(Vec<Address>, Vec<Address>), ServerError> {
    let all: Vec<Facts> = call(sentinel, about("REPLICAS", name)).await?.into_typed()?;
    let (up, down): (Vec<_>, Vec<_>) = all.iter().partition(|facts| is_up(facts));
    let addresses = |of: Vec<&Facts>| of.into_iter().filter_map(address_in).collect();
    Ok((addresses(up), addresses(down)))
}

pub(super) async fn others_by(sentinel: &dyn Server, name: &str) -> Result<Vec<Address>, ServerError> {
    let all: Vec<Facts> = call(sentinel, about("SENTINELS", name)).await?.into_typed()?;
    Ok(all.iter().filter_map(address_in).collect())
}

#[cfg(test)]
mod tests {
    use super::{Facts, is_replaced};

    #[test]
    fn another_takes_the_place_of_a_primary_that_is_down_or_as_planned() {
        let facts = |flags: &str| Facts::from([("flags".to_owned(), flags.to_owned())]);
        assert!(is_replaced(&facts("s_down,o_down,master,disconnected,failover_in_progress")));
        assert!(is_replaced(&facts("master,failover_in_progress")));
        assert!(!is_replaced(&facts("s_down,o_down,master,disconnected")));
    }
}
