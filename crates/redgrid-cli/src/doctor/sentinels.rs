//! The sentinels: who they are, and whether enough of them are there to name another primary.

use std::collections::HashMap;
use std::sync::Arc;

use redgrid::client::{Code, Request};
use redgrid::config::{Address, Sentinel};
use redgrid::{Client, ServerError};
use redgrid_core::FromReply;
use redgrid_core::author::{ClientExt, Server};

use super::facts::{Facts, READY_WITHIN};
use super::finding::Finding;

const CHECK: &str = "sentinels";

/// What the first sentinel that answered tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// Servers with data, the primary first.
    pub(crate) nodes: Vec<Address>,
    /// Why nothing is known, where that is so.
    pub(crate) silent: Option<String>,
    /// How many sentinels there are.
    pub(crate) count: u64,
    /// How many must agree that a primary is down.
    pub(crate) quorum: u64,
    /// What `SENTINEL CKQUORUM` says when there are not enough.
    pub(crate) short: Option<String>,
    /// What is not known, and why not: the user may not ask, or no answer came.
    pub(crate) unknown: Vec<String>,
    /// Of those that were named, the ones that did not answer.
    pub(crate) absent: Vec<String>,
}

impl Sentinels {
    /// Asks those that were named, on the connections of the client: they have the login and the encryption.
    pub(crate) async fn ask(client: &Client, named: &Sentinel) -> Self {
        let mut told = Sentinels::default();
        for address in &named.sentinels {
            let known = client.sentinels().into_iter().find(|known| *known.id().0 == *address.to_string());
            let asked = match known {
                Some(sentinel) => told.ask_one(&sentinel, &named.master_name).await,
                None => Err(ServerError::NotSent { reason: "nobody knows it any more".into() }),
            };
            if let Err(error) = asked {
                told.absent.push(address.to_string());
                told.silent.get_or_insert(error.to_string());
            }
        }
        if !told.nodes.is_empty() {
            told.silent = None;
        }
        told
    }

    async fn ask_one(&mut self, sentinel: &Arc<dyn Server>, name: &str) -> Result<(), ServerError> {
        // Without a connection in time, it says why there is none.
        let _ = tokio::time::timeout(READY_WITHIN, sentinel.connection_id().wait_for(Option::is_some)).await;
        let primary: HashMap<String, String> = ask(&**sentinel, "MASTER", name).await?;
        if !self.nodes.is_empty() {
            return Ok(());
        }
        let replicas: Vec<HashMap<String, String>> = match ask(&**sentinel, "REPLICAS", name).await {
            Err(error) if error.code() == Some(Code::NoPermission) => {
                self.unknown.push("which replicas there are: the user there may not ask (+sentinel|replicas)".into());
                Vec::new()
            }
            told => told?,
        };
        let number = |name: &str| primary.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        self.count = number("num-other-sentinels") + 1;
        self.quorum = number("quorum");
        self.nodes = std::iter::once(&primary).chain(&replicas).filter_map(place).collect();
        self.judge(ask::<String>(&**sentinel, "CKQUORUM", name).await);
        Ok(())
    }

    /// Takes in what was said to the question whether there are enough of them. Only a refusal of its own is a verdict; trouble on
    /// the way says nothing of it.
    fn judge(&mut self, quorum: Result<String, ServerError>) {
        let enough = "whether enough of them are there";
        match quorum {
            Ok(_) => {}
            Err(error) if error.code() == Some(Code::NoPermission) => {
                self.unknown.push(format!("{enough}: the user there may not ask (+sentinel|ckquorum)"));
            }
            Err(ServerError::Refused { code, message }) if !code.is_passing() => self.short = Some(message),
            Err(error) => self.unknown.push(format!("{enough}: {error}")),
        }
    }
}

async fn ask<T: FromReply>(sentinel: &dyn Server, what: &'static str, name: &str) -> Result<T, ServerError> {
    let answer = sentinel.call(vec![Request::command("SENTINEL").arg(what).arg(name.to_owned())]).await.pop();
    answer.unwrap_or_else(|| Err(ServerError::NotSent { reason: "nothing was asked".into() }))?.into_typed()
}

fn place(facts: &HashMap<String, String>) -> Option<Address> {
    Some(Address::new(facts.get("ip")?.as_str(), facts.get("port")?.parse().ok()?))
}

pub(crate) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(told) = &facts.sentinels else { return Vec::new() };
    if let Some(why) = &told.silent {
        return vec![Finding::warn(CHECK, format!("were not looked at: {why}"))];
    }
    let mut findings = vec![quorum(told)];
    if !told.absent.is_empty() {
        let says = format!("{} did not answer; a client that knows no other finds no primary", told.absent.join(", "));
        findings.push(Finding::warn(CHECK, says));
    }
    let unknown = told.unknown.iter().map(|what| Finding::warn(CHECK, format!("it is not known {what}")));
    findings.extend(unknown);
    findings
}

fn quorum(told: &Sentinels) -> Finding {
    let (count, quorum) = (told.count, told.quorum);
    if let Some(why) = &told.short {
        Finding::fail(CHECK, format!("no failover can come about now: {why}"))
    } else if count < 3 {
        Finding::warn(
            CHECK,
            format!("{count} of them: when one is gone nobody has a majority for a failover; have three"),
        )
    } else if quorum <= count / 2 {
        let says = format!(
            "{quorum} of {count} may call the primary dead: a small part of a split network begins failovers; set a quorum of {}",
            count / 2 + 1
        );
        Finding::warn(CHECK, says)
    } else {
        Finding::ok(CHECK, format!("{count} of them, and {quorum} must agree that a primary is dead"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn too_few_sentinels_or_too_small_a_quorum_are_told() {
        let level = |count, quorum, short: Option<&str>| {
            quorum_of(Sentinels { count, quorum, short: short.map(str::to_owned), ..Sentinels::default() })
        };
        fn quorum_of(told: Sentinels) -> Level {
            quorum(&told).level
        }
        assert_eq!(level(3, 2, None), Level::Ok);
        assert_eq!((level(2, 2, None), level(5, 2, None)), (Level::Warn, Level::Warn));
        assert_eq!(level(3, 2, Some("NOQUORUM 1 usable Sentinels")), Level::Fail);
    }

    #[test]
    fn trouble_on_the_way_is_no_verdict() {
        let told = |answer| {
            let mut told = Sentinels::default();
            told.judge(answer);
            (told.short.is_some(), told.unknown.len())
        };
        let refused = |code, message: &str| Err(ServerError::Refused { code, message: message.into() });
        assert_eq!(told(Ok("OK 3 usable Sentinels".into())), (false, 0));
        assert_eq!(told(refused(Code::Other, "NOQUORUM 1 usable Sentinels")), (true, 0));
        assert_eq!(told(refused(Code::NoPermission, "NOPERM no")), (false, 1));
        assert_eq!(told(refused(Code::Loading, "LOADING")), (false, 1));
        assert_eq!(told(Err(ServerError::NotSent { reason: "no connection".into() })), (false, 1));
        assert_eq!(told(Err(ServerError::Unknown { reason: "cut".into() })), (false, 1));
    }
}
