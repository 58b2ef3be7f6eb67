//! Helpers of the tests of deployments.

use redgrid_testkit::{FindError, RedisServer, ServerBinary, ServerBuilder};

pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Options for the programs under test: the default one, and the newest if it exists.
pub(crate) fn programs(test: &str) -> Result<Vec<ServerBuilder>, FindError> {
    let newest = ServerBinary::newest_or_skip(&format!("{test} on the newest server"));
    let binaries = [ServerBinary::find()?].into_iter().chain(newest);
    Ok(binaries.map(|binary| RedisServer::builder().binary(binary)).collect())
}
