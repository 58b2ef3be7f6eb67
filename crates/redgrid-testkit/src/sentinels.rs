//! A primary, its replicas, and the sentinels that monitor them.

use std::{collections::HashMap, net::SocketAddr, time::Duration};

use crate::{
    builder::{Role, SEVEN, ServerBuilder},
    replicated::Replicated,
    server::RedisServer,
    start_error::StartError,
    topology::{self, SETTLED_WITHIN, TopologyError, ask, follows, running, start_all, until},
};

/// A primary and replicas monitored by sentinels, which promote another primary if it fails.
///
/// Each server is a [`RedisServer`] with all its faults. A replaced primary becomes a replica when
/// it is restarted or resumed; [`wait_until_ok`](Self::wait_until_ok) waits for this change too.
///
/// When a sentinel changes the role of a server, it makes the server write its current
/// configuration to its file. Settings of [`set_config`](RedisServer::set_config) or
/// [`deny`](RedisServer::deny) then survive a restart.
///
/// From 7.0 on, the sentinels poll more often than usual (by `SENTINEL DEBUG`), until they are
/// restarted. A killed primary is replaced within 2 to 4 s, and the deployment settles in about the
/// same time. With 6.2, settling takes up to 15 s.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_testkit::Sentinels;
///
/// let deployment = Sentinels::start().await?;
/// let before = deployment.current_primary().await?;
/// before.kill().await?;
/// let after = deployment.wait_for_primary_other_than(before.addr()).await?;
/// # let _ = after; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Sentinels {
    data: Replicated,
    sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts three sentinels, a primary and two replicas. Returns once all have discovered each
    /// other.
    ///
    /// # Errors
    ///
    /// As for [`SentinelsBuilder::start`].
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// Returns a builder for options; [`SentinelsBuilder::start`] then starts the servers.
    pub fn builder() -> SentinelsBuilder {
        SentinelsBuilder::default()
    }

    /// Returns the name of the primary among the sentinels.
    pub fn master_name(&self) -> &str {
        MASTER_NAME
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// Returns the announced addresses of the sentinels.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(RedisServer::announced).collect()
    }

    /// Returns the primary and the replicas; the first is the server that was the primary at the
    /// start.
    pub fn servers(&self) -> &[RedisServer] {
        self.data.servers()
    }

    /// Returns the server with data that listens on `addr`.
    pub fn server_at(&self, addr: SocketAddr) -> Option<&RedisServer> {
        topology::at(self.servers(), addr)
    }

    /// Returns `redis-sentinel://host:port,…/mymaster`. The URL contains the password of the
    /// servers, if there is one, not that of the sentinels.
    pub fn url(&self) -> String {
        let hosts = topology::url("sentinel", self.data.primary(), &self.sentinels);
        format!("{hosts}/{MASTER_NAME}")
    }

    /// Returns the primary named by the running sentinels. If they disagree, the primary of the
    /// latest failover is returned.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`]: for four minutes no sentinel named one of the servers.
    pub async fn current_primary(&self) -> Result<&RedisServer, TopologyError> {
        until(SETTLED_WITHIN, || async {
            let opinions = self.opinions().await?;
            let latest = opinions.into_iter().max_by_key(|opinion| opinion.epoch).ok_or("a running sentinel")?;
            self.known(latest.primary)
        })
        .await
    }

    /// Waits until all running sentinels name the same writable primary other than `addr`, and
    /// returns it.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`] after four minutes.
    pub async fn wait_for_primary_other_than(&self, addr: SocketAddr) -> Result<&RedisServer, TopologyError> {
        until(SETTLED_WITHIN, || async {
            let primary = self.agreed().await?;
            if primary.addr() == addr { Err(format!("a primary other than {addr}")) } else { Ok(primary) }
        })
        .await
    }

    /// Replaces the healthy primary, and returns the new one when the deployment has settled as in
    /// [`wait_until_ok`](Self::wait_until_ok).
    ///
    /// # Errors
    ///
    /// [`TopologyError::Server`]: the sentinel rejected the request, and nothing changes.
    /// [`TopologyError::TimedOut`] after four minutes, also if no replica was usable.
    pub async fn fail_over(&self) -> Result<&RedisServer, TopologyError> {
        let before = self.current_primary().await?.addr();
        // `current_primary` has just received a reply from a running sentinel.
        let sentinel = running(&self.sentinels).first().copied().unwrap_or(&self.sentinels[0]);
        let observer = sentinel.observer().await?;
        // On a busy machine a server may be silent for a moment. The sentinel then rejects the
        // failover, gives it up later, or makes the old primary the primary again. So the request
        // is repeated until the deployment has settled with another primary. A request is rejected
        // while a failover is under way.
        until(SETTLED_WITHIN, || async {
            let primary = self.agreed().await?;
            if primary.addr() != before {
                return self.settled().await.map(Ok);
            }
            match observer.cmd(&["SENTINEL", "FAILOVER", MASTER_NAME]).await {
                Err(refused) if !matches!(refused.code(), Some("NOGOODSLAVE" | "INPROG")) => Ok(Err(refused)),
                answer => Err(format!("a failover: {answer:?}")),
            }
        })
        .await?
        .map_err(TopologyError::from)
    }

    /// Waits until all running servers have settled. The sentinels agree on a running primary, and
    /// have discovered all servers and each other. The other servers follow the primary and have
    /// caught up.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`] after four minutes.
    pub async fn wait_until_ok(&self) -> Result<(), TopologyError> {
        until(SETTLED_WITHIN, || self.settled()).await.map(drop)
    }

    /// Returns the primary if the deployment has settled as in
    /// [`wait_until_ok`](Self::wait_until_ok), or else what is missing.
    async fn settled(&self) -> Result<&RedisServer, String> {
        let primary = self.agreed().await?;
        for server in running(self.servers()) {
            if server.addr() != primary.addr() {
                follows(server, primary).await?;
            }
        }
        let (replicas, others) = (self.servers().len() - 1, self.sentinels.len() - 1);
        for opinion in self.opinions().await? {
            if opinion.flags != "master" || opinion.replicas != replicas || opinion.others != others {
                return Err(format!("a sentinel still sees {opinion:?}"));
            }
        }
        Ok(primary)
    }

    /// Makes the sentinels poll more often.
    async fn make_haste(&self) -> Result<(), TopologyError> {
        for sentinel in &self.sentinels {
            if sentinel.binary().version() >= SEVEN {
                sentinel.observer().await?.cmd(&[&["SENTINEL", "DEBUG"], HASTE].concat()).await?;
            }
        }
        Ok(())
    }

    /// Returns the primary on which all running sentinels and the primary itself agree.
    async fn agreed(&self) -> Result<&RedisServer, String> {
        let opinions = self.opinions().await?;
        let first = opinions.first().ok_or("a running sentinel")?;
        if opinions.iter().any(|opinion| opinion.primary != first.primary) {
            return Err(format!("the sentinels disagree: {opinions:?}"));
        }
        let primary = self.known(first.primary)?;
        let info: String = ask(primary, &["INFO", "replication"]).await?;
        if info.lines().any(|line| line == "role:master") {
            Ok(primary)
        } else {
            Err(format!("{} is not a primary yet", primary.addr()))
        }
    }

    /// Returns the view of each running sentinel.
    async fn opinions(&self) -> Result<Vec<Opinion>, String> {
        let mut opinions = Vec::new();
        for sentinel in running(&self.sentinels) {
            let fields: HashMap<String, String> = ask(sentinel, &["SENTINEL", "MASTER", MASTER_NAME]).await?;
            // The address is queried after the epoch: it may be newer than the epoch, never older.
            let (host, port): (String, u16) =
                ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME]).await?;
            let primary = format!("{host}:{port}").parse().map_err(|_| format!("{host}:{port} is no address"))?;
            let number = |name: &str| fields.get(name).and_then(|value| value.parse().ok()).unwrap_or_default();
            opinions.push(Opinion {
                primary,
                epoch: number("config-epoch"),
                flags: fields.get("flags").cloned().unwrap_or_default(),
                replicas: number("num-slaves"),
                others: number("num-other-sentinels"),
            });
        }
        Ok(opinions)
    }

    fn known(&self, addr: SocketAddr) -> Result<&RedisServer, String> {
        self.server_at(addr).ok_or_else(|| format!("{addr}, the sentinels' primary, is none of the servers"))
    }
}

/// One sentinel's view of the primary.
#[derive(Debug)]
struct Opinion {
    primary: SocketAddr,
    epoch: usize,
    flags: String,
    replicas: usize,
    others: usize,
}

/// The options of [`Sentinels`], see [`Sentinels::builder`].
#[derive(Debug, Clone)]
#[must_use = "does nothing until `start` is awaited"]
pub struct SentinelsBuilder {
    sentinels: usize,
    replicas: usize,
    down_after: Duration,
    server_options: ServerBuilder,
    sentinel_options: ServerBuilder,
}

impl Default for SentinelsBuilder {
    fn default() -> Self {
        Self {
            sentinels: 3,
            replicas: 2,
            down_after: Duration::from_secs(1),
            server_options: ServerBuilder::default(),
            sentinel_options: ServerBuilder::default(),
        }
    }
}

impl SentinelsBuilder {
    /// Sets the number of sentinels, at least one; a majority must agree on a failover. The default
    /// is 3.
    pub fn sentinels(mut self, count: usize) -> Self {
        self.sentinels = count.max(1);
        self
    }

    /// Sets the number of replicas. The default is 2.
    pub fn replicas(mut self, count: usize) -> Self {
        self.replicas = count;
        self
    }

    /// Sets how long a server may be silent before a sentinel considers it down. The default is 1
    /// s: a shorter time causes unwanted failovers on a loaded machine.
    pub fn down_after(mut self, silence: Duration) -> Self {
        self.down_after = silence;
        self
    }

    /// Sets the options of the primary and the replicas. Replicas and sentinels use the same
    /// password to log in.
    pub fn server_options(mut self, options: ServerBuilder) -> Self {
        self.server_options = options;
        self
    }

    /// Sets the options of the sentinels. Their password is separate from that of the servers, and
    /// is used among the sentinels; by default there is none. Without a program of their own, the
    /// sentinels use that of the servers.
    pub fn sentinel_options(mut self, options: ServerBuilder) -> Self {
        self.sentinel_options = options;
        self
    }

    /// Starts the servers. Returns once the replicas have caught up and the sentinels have
    /// discovered all servers and each other.
    ///
    /// # Errors
    ///
    /// [`StartError`]; no process is left running.
    pub async fn start(self) -> Result<Sentinels, StartError> {
        let options = self.server_options.clone().among_themselves()?;
        let data = Replicated::start_with(self.replicas, options.clone()).await?;
        let mut sentinel = self.sentinel(data.primary());
        sentinel.tls = sentinel.tls.or(options.tls);
        sentinel.authority = options.authority;
        let sentinels = start_all(vec![sentinel; self.sentinels]).await?;
        let started = Sentinels { data, sentinels };
        started.make_haste().await?;
        started.wait_until_ok().await?;
        Ok(started)
    }

    /// Returns the options of a sentinel that monitors `primary`.
    fn sentinel(&self, primary: &RedisServer) -> ServerBuilder {
        let mut sentinel = self.sentinel_options.clone().role(Role::Sentinel);
        sentinel.binary.get_or_insert_with(|| primary.binary().clone());
        let (ip, port, quorum) = (primary.announced().ip(), primary.announced().port(), self.sentinels / 2 + 1);
        let mut lines = vec![
            format!("monitor {MASTER_NAME} {ip} {port} {quorum}"),
            format!("down-after-milliseconds {MASTER_NAME} {}", self.down_after.as_millis()),
            format!("failover-timeout {MASTER_NAME} {}", FAILOVER_TIMEOUT.as_millis()),
            format!("parallel-syncs {MASTER_NAME} {}", self.replicas.max(1)),
        ];
        lines.extend(
            self.server_options.password.iter().map(|password| format!("auth-pass {MASTER_NAME} {password:?}")),
        );
        lines.extend(self.sentinel_options.password.iter().map(|password| format!("sentinel-pass {password:?}")));
        lines.iter().fold(sentinel, |sentinel, line| sentinel.config(format!("sentinel {line}")))
    }
}

/// The sentinels' name for the primary, as in every example of the Redis manual.
const MASTER_NAME: &str = "mymaster";

/// Timeout of a failover. The next failover begins after twice this time. 3 s is enough: a
/// promotion takes less than one second.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(3);

/// Poll intervals of sentinels in milliseconds; the usual ones are 1 to 10 s. `tilt-period` is how
/// long sentinels refuse to act after a pause of their process; usually 30 s.
const HASTE: &[&str] =
    &["info-period", "300", "ping-period", "200", "ask-period", "200", "publish-period", "200", "tilt-period", "2000"];
