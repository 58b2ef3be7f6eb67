//! Checks the sentinels: their nodes, and whether they have a quorum.

use std::collections::HashMap;
use std::sync::Arc;

use redgrid_core::author::{ClientExt, Server};
use redgrid_core::config::{Address, Sentinel};
use redgrid_core::{Client, Code, FromReply, Request, ServerError};

use super::facts::{Facts, READY_TIMEOUT};
use super::finding::Finding;

const CHECK: &str = "sentinels";

/// The state of the sentinels, reported by the first sentinel that answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sentinels {
    /// Servers with data, the primary first.
    pub(super) nodes: Vec<Address>,
    /// Why nothing is known, if no sentinel answered.
    pub(super) silent: Option<String>,
    /// Number of sentinels.
    pub(super) count: u64,
    /// How many must agree that a primary is down.
    pub(super) quorum: u64,
    /// The reply of `SENTINEL CKQUORUM` without a quorum.
    pub(super) short: Option<String>,
    /// An unknown fact and its reason: no permission, or no reply.
    pub(super) unknown: Vec<String>,
    /// Configured sentinels that did not answer.
    pub(super) absent: Vec<String>,
}

impl Sentinels {
    /// Asks the configured sentinels on the client's connections, which have the login and the
    /// encryption.
    ///
    /// For a reader, they are not asked whether there is a quorum.
    pub(super) async fn query(client: &Client, named: &Sentinel, is_for_reader: bool) -> Self {
        let mut report = Sentinels::default();
        for address in &named.sentinels {
            let known = client.sentinels().into_iter().find(|known| *known.id().0 == *address.to_string());
            let result = match known {
                Some(sentinel) => report.query_one(&sentinel, &named.master_name, is_for_reader).await,
                None => Err(ServerError::NotSent { reason: "the other sentinels no longer list it".into() }),
            };
            if let Err(error) = result {
                report.absent.push(address.to_string());
                report.silent.get_or_insert(error.to_string());
            }
        }
        if !report.nodes.is_empty() {
            report.silent = None;
        }
        report
    }

    async fn query_one(
        &mut self,
        sentinel: &Arc<dyn Server>,
        name: &str,
        is_for_reader: bool,
    ) -> Result<(), ServerError> {
        // If no connection is established in time, the error of the next request contains the
        // reason.
        let _ = tokio::time::timeout(READY_TIMEOUT, sentinel.connection_id().wait_for(Option::is_some)).await;
        let primary: HashMap<String, String> = sentinel_command(&**sentinel, "MASTER", name).await?;
        if !self.nodes.is_empty() {
            return Ok(());
        }
        let replicas: Vec<HashMap<String, String>> = match sentinel_command(&**sentinel, "REPLICAS", name).await {
            Err(error) if error.code() == Some(Code::NoPermission) => {
                self.unknown.push("the list of replicas: the user there lacks +sentinel|replicas".into());
                Vec::new()
            }
            replicas => replicas?,
        };
        let number = |name: &str| primary.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        self.count = number("num-other-sentinels") + 1;
        self.quorum = number("quorum");
        self.nodes = std::iter::once(&primary).chain(&replicas).filter_map(place).collect();
        if !is_for_reader {
            self.judge(sentinel_command::<String>(&**sentinel, "CKQUORUM", name).await);
        }
        Ok(())
    }

    /// Interprets the reply about the quorum. Only an error reply of the sentinel means that there
    /// is no quorum; a transport error does not.
    fn judge(&mut self, quorum: Result<String, ServerError>) {
        let enough = "the quorum";
        match quorum {
            Ok(_) => {}
            Err(error) if error.code() == Some(Code::NoPermission) => {
                self.unknown.push(format!("{enough}: the user there lacks +sentinel|ckquorum"));
            }
            Err(ServerError::Refused { code, message }) if !code.is_passing() => self.short = Some(message),
            Err(error) => self.unknown.push(format!("{enough}: {error}")),
        }
    }
}

async fn sentinel_command<T: FromReply>(
    sentinel: &dyn Server,
    what: &'static str,
    name: &str,
) -> Result<T, ServerError> {
    let answer = sentinel.call(vec![Request::command("SENTINEL").arg(what).arg(name.to_owned())]).await.pop();
    answer.unwrap_or_else(|| Err(ServerError::NotSent { reason: "no request was sent".into() }))?.into_typed()
}

fn place(facts: &HashMap<String, String>) -> Option<Address> {
    Some(Address::new(facts.get("ip")?.as_str(), facts.get("port")?.parse().ok()?))
}

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(report) = &facts.sentinels else { return Vec::new() };
    if let Some(why) = &report.silent {
        return vec![Finding::warn(CHECK, format!("were not checked: {why}"))];
    }
    let mut findings = vec![quorum(report)];
    if !report.absent.is_empty() {
        let message = format!(
            "{} did not answer; a client that knows no other sentinel finds no primary",
            report.absent.join(", ")
        );
        findings.push(Finding::warn(CHECK, message));
    }
    let unknown = report.unknown.iter().map(|what| Finding::warn(CHECK, format!("not checked: {what}")));
    findings.extend(unknown);
    findings
}

fn quorum(report: &Sentinels) -> Finding {
    let count = report.count;
    let quorum = report.quorum;
    if let Some(why) = &report.short {
        Finding::fail(CHECK, format!("no failover is possible now: {why}"))
    } else if count < 3 {
        Finding::warn(
            CHECK,
            format!("{count} sentinels: if one is lost, there is no majority for a failover; run three"),
        )
    } else if quorum <= count / 2 {
        let message = format!(
            "{quorum} of {count} may declare the primary dead: a small part of a split network starts failovers; set a quorum of {}",
            count / 2 + 1
        );
        Finding::warn(CHECK, message)
    } else {
        Finding::ok(CHECK, format!("{count} sentinels, of which {quorum} must agree that a primary is dead"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn too_few_sentinels_or_too_small_a_quorum_are_reported() {
        let level = |count, quorum, short: Option<&str>| {
            quorum_of(Sentinels { count, quorum, short: short.map(str::to_owned), ..Sentinels::default() })
        };
        fn quorum_of(report: Sentinels) -> Level {
            quorum(&report).level
        }
        assert_eq!(level(3, 2, None), Level::Ok);
        assert_eq!((level(2, 2, None), level(5, 2, None)), (Level::Warn, Level::Warn));
        assert_eq!(level(3, 2, Some("NOQUORUM 1 usable Sentinels")), Level::Fail);
    }

    #[test]
    fn trouble_on_the_way_is_no_verdict() {
        let verdict = |answer| {
            let mut report = Sentinels::default();
            report.judge(answer);
            (report.short.is_some(), report.unknown.len())
        };
        let refused = |code, message: &str| Err(ServerError::Refused { code, message: message.into() });
        assert_eq!(verdict(Ok("OK 3 usable Sentinels".into())), (false, 0));
        assert_eq!(verdict(refused(Code::Other, "NOQUORUM 1 usable Sentinels")), (true, 0));
        assert_eq!(verdict(refused(Code::NoPermission, "NOPERM no")), (false, 1));
        assert_eq!(verdict(refused(Code::Loading, "LOADING")), (false, 1));
        assert_eq!(verdict(Err(ServerError::NotSent { reason: "no connection".into() })), (false, 1));
        assert_eq!(verdict(Err(ServerError::Unknown { reason: "cut".into() })), (false, 1));
    }
}
