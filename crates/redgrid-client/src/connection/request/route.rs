//! Redirects of one transmission, and topology hints after failures.
//!
//! MOVED and ASK mean that nothing was executed, so following them is not a retransmission.

use std::sync::atomic::Ordering;

use super::send::{Answer, Transmission};
use crate::config::Address;
use crate::connection::{Request, TopologyHint};
use crate::error::{Code, ServerError};

/// Maximum number of redirects that one transmission follows. Usually there is only one. A slot
/// that is migrated again meanwhile causes a second redirect.
const MOST_HOPS: usize = 3;

/// Where a slot is served, according to a server: permanently (MOVED), or for this request only
/// (ASK).
#[derive(Debug, PartialEq, Eq)]
struct Redirection {
    slot: u16,
    address: Address,
    is_ask: bool,
}

impl Redirection {
    /// Parses `MOVED 3999 127.0.0.1:6381` and `ASK …` from a server at `host`.
    fn of(error: &ServerError, host: &str) -> Option<Redirection> {
        let ServerError::Refused { code: code @ (Code::Moved | Code::Ask), message } = error else { return None };
        let mut parts = message.trim_start_matches('-').split(' ');
        let (_, slot, address) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let (named, port) = address.rsplit_once(':')?;
        // If a server does not know a host name to report, the host is empty or `?`. In that case,
        // `host` is used.
        let named = if matches!(named, "" | "?") { host } else { named };
        Some(Redirection { slot, address: Address::new(named, port.parse().ok()?), is_ask: *code == Code::Ask })
    }
}

impl Transmission<'_> {
    /// Handles a transmission that failed: follows its redirects, up to [`MOST_HOPS`] of them.
    ///
    /// Sets `sent_on` at the first redirect. A failure that may come from the wrong node triggers a
    /// topology refresh.
    pub(super) async fn follow(&self, mut answer: Answer) -> Answer {
        for hops in 0.. {
            let Err(error) = &answer.result else { break };
            let by = answer.by.id();
            // A script can return the text of a redirect. Only redirects of the server itself are
            // followed.
            let own = !matches!(error, ServerError::Refused { message, .. } if !self.request.is_servers_own(message));
            let redirection = Redirection::of(error, by.host()).filter(|_| own && hops < MOST_HOPS);
            let Some(Redirection { slot, address, is_ask }) = redirection else {
                if is_doubtful(error) {
                    self.topology.suspect(TopologyHint::Node(by.clone()));
                }
                break;
            };
            self.sent_on.store(true, Ordering::Relaxed);
            let next = self.topology.at(&address);
            if !is_ask {
                self.topology.suspect(TopologyHint::Moved(slot, address));
            }
            let Some(by) = next else { break };
            let epoch = by.current_connection_id();
            let result = match is_ask {
                false => by.ask(self.request, self.limit).await,
                true => by.call_asking(Request::clone(self.request).not_after(self.limit)).await,
            };
            answer = Answer { result, by, epoch, at_home: false };
        }
        answer
    }
}

/// Returns whether an error may come from using the wrong node.
pub(in crate::connection) fn is_doubtful(error: &ServerError) -> bool {
    match error {
        ServerError::Refused { code, .. } => {
            matches!(code, Code::ReadOnly | Code::ClusterDown | Code::MasterDown | Code::Moved | Code::Ask)
        }
        error => !matches!(error, ServerError::Decode { .. } | ServerError::ShuttingDown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Reply;
    use crate::connection::traits::of_asking;

    #[test]
    fn a_refused_asking_is_the_cause_of_a_second_redirection() {
        let refused = |message: &str| Err(ServerError::refused(message));
        let denied = || refused("NOPERM this user has no permissions to run the 'asking' command");
        assert_eq!(of_asking(vec![denied(), refused("MOVED 1 a:1")]).unwrap_err().code(), Some(Code::NoPermission));
        // The request was executed, or may have been. This result takes precedence over the refused
        // ASKING.
        assert_eq!(of_asking(vec![denied(), Ok(Reply::Int(1))]).unwrap(), Reply::Int(1));
        assert!(of_asking(vec![denied(), Err(ServerError::unknown("cut"))]).unwrap_err().is_unknown());
        let ok = || Ok(Reply::Bytes("OK".into()));
        assert_eq!(of_asking(vec![ok(), refused("MOVED 1 a:1")]).unwrap_err().code(), Some(Code::Moved));
        assert_eq!(of_asking(vec![Ok(Reply::Int(2))]).unwrap(), Reply::Int(2));
        assert!(of_asking(Vec::new()).unwrap_err().is_unknown());
    }

    #[test]
    fn a_redirection_is_read_with_or_without_a_host() {
        let of = |message: &str| Redirection::of(&ServerError::refused(message), "here");
        let at = |slot, host: &str| Some(Redirection { slot, address: Address::new(host, 6381), is_ask: false });
        assert_eq!(of("MOVED 3999 127.0.0.1:6381"), at(3999, "127.0.0.1"));
        assert_eq!(of("MOVED 3999 :6381"), at(3999, "here"));
        assert_eq!(of("MOVED 3999 ?:6381"), at(3999, "here"));
        let ask = Redirection { slot: 1, address: Address::new("db.example", 7), is_ask: true };
        assert_eq!(of("ASK 1 db.example:7"), Some(ask));
        assert_eq!(of("MOVED 3999 ::1:6381"), at(3999, "::1"));
        for other in ["ERR no", "MOVED", "MOVED x y", "MOVED 3999 nowhere", "MOVED 1 a:x", "ERR script: MOVED 1 a:1"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
