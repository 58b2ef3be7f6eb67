//! The role that a server reports.

use crate::config::Address;
use crate::connection::{Reply, Request, Server};
use crate::error::ServerError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    Primary {
        replicas: usize,
    },
    ReplicaOf {
        /// The address of the primary from which the server replicates, as the server's
        /// configuration gives it.
        primary: Address,
        /// Whether the link to the primary is up and the initial synchronization is complete.
        is_connected: bool,
    },
}

pub(super) async fn role(node: &dyn Server) -> Result<Role, ServerError> {
    role_of(&node.call_one(Request::command("ROLE")).await?.into_typed::<Vec<Reply>>()?)
}

/// Reads the role from a reply to `ROLE`. The reply of a sentinel is rejected.
fn role_of(parts: &[Reply]) -> Result<Role, ServerError> {
    let text = |at: usize| parts.get(at).and_then(|part| part.clone().into_typed::<String>().ok()).unwrap_or_default();
    let unexpected = || ServerError::unknown("the reply to ROLE is neither that of a primary nor that of a replica");
    match text(0).as_str() {
        "master" => {
            let replicas = if let Some(Reply::Array(replicas)) = parts.get(2) { replicas.len() } else { 0 };
            Ok(Role::Primary { replicas })
        }
        "slave" => {
            let port = text(2).parse().map_err(|_| unexpected())?;
            Ok(Role::ReplicaOf { primary: Address::new(text(1), port), is_connected: text(3) == "connected" })
        }
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_that_of_a_primary_or_of_a_replica() {
        let text = |text: &'static str| Reply::Bytes(text.into());
        let slave = |state| role_of(&[text("slave"), text("h"), Reply::Int(7), text(state), Reply::Int(9)]);
        let copies = |is_connected| Ok(Role::ReplicaOf { primary: Address::new("h", 7), is_connected });
        assert_eq!(slave("connected"), copies(true));
        assert_eq!(slave("connecting"), copies(false));
        let one = Reply::Array(vec![Reply::Array(vec![text("h"), text("7"), text("9")])]);
        assert_eq!(role_of(&[text("master"), Reply::Int(9), one]), Ok(Role::Primary { replicas: 1 }));
        assert!(role_of(&[text("sentinel"), Reply::Array(vec![text("name")])]).is_err());
        assert!(role_of(&[]).is_err());
    }
}
