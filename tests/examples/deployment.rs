//! The servers of one program.

use std::error::Error;
use std::net::SocketAddr;

use redgrid_testkit::{Cluster, RedisServer, Sentinels, ServerBinary};

use crate::table::Servers;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The mark of a server that votes in a quorum. It stays, as docs/internals/keys.md says.
const SERVER_MARK: &str = "redgrid_birth";

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
            Servers::Single => Deployment::Single(RedisServer::start().await?),
            Servers::Newest => {
                Deployment::Single(RedisServer::builder().binary(ServerBinary::newest()?).start().await?)
            }
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
            ],
            Deployment::Cluster(cluster) => {
                vec![("REDGRID_CLUSTER", listed(cluster.addrs())), ("REDGRID_URL", cluster.url())]
            }
        }
    }

    /// Returns the keys of all servers that would stay for ever.
    pub(crate) async fn keys_without_lifetime(&self) -> Outcome<Vec<String>> {
        let servers = match self {
            Deployment::Single(server) => std::slice::from_ref(server),
            Deployment::Quorum(servers) => servers,
            Deployment::Sentinels(sentinels) => std::slice::from_ref(sentinels.current_primary().await?),
            Deployment::Cluster(cluster) => cluster.nodes(),
        };
        let mut left = Vec::new();
        for server in servers {
            let observer = server.observer().await?;
            for key in observer.keys("*").await? {
                // −1: the key has no lifetime. −2: it has expired meanwhile.
                if observer.query::<i64>(&["PTTL", &key]).await? == -1 && key != SERVER_MARK {
                    left.push(key);
                }
            }
        }
        Ok(left)
    }
}

fn listed(addrs: Vec<SocketAddr>) -> String {
    addrs.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
}
