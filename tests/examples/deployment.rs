//! The servers of one program, or of one block of the documentation.

use std::error::Error;
use std::net::SocketAddr;

use redgrid_testkit::{Cluster, RedisServer, Sentinels, ServerBinary, ServerBuilder};

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The servers that a program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Servers {
    /// One server.
    Single,
    /// One server of the newest release. If it is not installed, the program is skipped.
    Newest,
    /// Three independent servers.
    Quorum,
    /// A primary with replicas and sentinels.
    Sentinels,
    /// A cluster of three primaries.
    Cluster,
}

/// The running servers. They end with this value.
pub(crate) enum Deployment {
    Single(RedisServer),
    Quorum(Vec<RedisServer>),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    pub(crate) async fn start(servers: Servers) -> Outcome<Self> {
        Ok(match servers {
            Servers::Single => Deployment::Single(single().start().await?),
            Servers::Newest => Deployment::Single(single().binary(ServerBinary::newest()?).start().await?),
            Servers::Quorum => {
                let mut three = Vec::new();
                for _ in 0..3 {
                    three.push(RedisServer::start().await?);
                }
                Deployment::Quorum(three)
            }
            Servers::Sentinels => Deployment::Sentinels(Sentinels::start().await?),
            Servers::Cluster => Deployment::Cluster(Cluster::start(3, 0).await?),
        })
    }

    /// Returns the environment variables that name the servers to the program.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Deployment::Single(server) => vec![("REDGRID_URL", server.url())],
            Deployment::Quorum(servers) => {
                vec![("REDGRID_QUORUM", servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(","))]
            }
            Deployment::Sentinels(sentinels) => vec![
                ("REDGRID_SENTINELS", listed(sentinels.addrs())),
                ("REDGRID_MASTER", sentinels.master_name().to_owned()),
                ("REDGRID_URL", sentinels.url()),
            ],
            Deployment::Cluster(cluster) => {
                vec![("REDGRID_CLUSTER", listed(cluster.addrs())), ("REDGRID_URL", cluster.url())]
            }
        }
    }
}

/// A server with the user that docs/getting-started.md logs in as.
fn single() -> ServerBuilder {
    RedisServer::builder().user("app", "on >secret ~* &* +@all")
}

fn listed(addrs: Vec<SocketAddr>) -> String {
    addrs.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}
