//! The table of unusable targets, by kind of error.

mod deployments;
mod encryption;
mod logins;
mod network;
mod strangers;

use crate::Row;
use crate::targets::Targets;

pub(crate) fn all(targets: &Targets) -> Vec<Row> {
    let groups =
        [network::rows, logins::rows, encryption::rows, strangers::rows, deployments::rows].map(|rows| rows(targets));
    groups.into_iter().flatten().collect()
}
