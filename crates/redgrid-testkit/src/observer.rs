//! Inspects a server independently of the code under test.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, Value, aio::MultiplexedConnection};

/// A connection to inspect and change a server in tests.
///
/// It uses another client library than the code under test, so that the two do not share defects.
/// One created by [`RedisServer::observer`](crate::RedisServer::observer) has all permissions, and
/// [`Monitor`](crate::Monitor) and the faults exclude it. Clones share one connection, which lives
/// on the runtime that created it.
#[derive(Clone)]
pub struct Observer {
    connection: MultiplexedConnection,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl Observer {
    /// Connects to `url`, with the permissions of the user that `url` names. For all permissions
    /// use [`RedisServer::observer`](crate::RedisServer::observer).
    ///
    /// # Errors
    ///
    /// The URL is invalid, or the server did not accept the connection.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let connection = Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { connection })
    }

    /// Sends a command unchanged and returns the reply unchanged.
    ///
    /// # Errors
    ///
    /// The server's error reply, or the loss of the connection; in the second case the command may
    /// have been executed.
    pub async fn cmd<A: AsRef<[u8]>>(&self, command: &[A]) -> Result<Value, RedisError> {
        self.query(command).await
    }

    /// Like [`cmd`](Self::cmd), with the reply read as a `T`.
    ///
    /// # Errors
    ///
    /// As for [`cmd`](Self::cmd), and an error for a reply that is not a `T`.
    pub async fn query<T: FromRedisValue>(&self, command: &[impl AsRef<[u8]>]) -> Result<T, RedisError> {
        let mut cmd = Cmd::new();
        for part in command {
            cmd.arg(part.as_ref());
        }
        cmd.query_async(&mut self.connection.clone()).await
    }

    /// Returns the value of a string key; `None` if there is no such key.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn get<T: FromRedisValue>(&self, key: &str) -> Result<Option<T>, RedisError> {
        self.query(&["GET", key]).await
    }

    /// Returns whether the key exists.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn exists(&self, key: &str) -> Result<bool, RedisError> {
        self.query(&["EXISTS", key]).await
    }

    /// Returns the time to live of a key; `None` if there is no such key or it does not expire.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn time_to_live(&self, key: &str) -> Result<Option<Duration>, RedisError> {
        let millis: i64 = self.query(&["PTTL", key]).await?;
        Ok(u64::try_from(millis).ok().map(Duration::from_millis))
    }

    /// Returns the keys that match a pattern as in `KEYS`, sorted.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn keys(&self, pattern: &str) -> Result<Vec<String>, RedisError> {
        let mut keys: Vec<String> = self.query(&["KEYS", pattern]).await?;
        keys.sort();
        Ok(keys)
    }

    /// Returns the channels with subscribers that match a pattern as in `PUBSUB CHANNELS`, sorted.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn pubsub_channels(&self, pattern: &str) -> Result<Vec<String>, RedisError> {
        let mut channels: Vec<String> = self.query(&["PUBSUB", "CHANNELS", pattern]).await?;
        channels.sort();
        Ok(channels)
    }

    /// Returns the sharded channels with subscribers that match a pattern, sorted. Needs Redis 7.0
    /// or newer.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn pubsub_shard_channels(&self, pattern: &str) -> Result<Vec<String>, RedisError> {
        let mut channels: Vec<String> = self.query(&["PUBSUB", "SHARDCHANNELS", pattern]).await?;
        channels.sort();
        Ok(channels)
    }

    /// Returns the server's clock: microseconds since 1970.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn server_time_micros(&self) -> Result<u64, RedisError> {
        let (seconds, micros): (u64, u64) = self.query(&["TIME"]).await?;
        Ok(seconds * 1_000_000 + micros)
    }

    /// Sends PING.
    ///
    /// # Errors
    ///
    /// The errors of [`query`](Self::query).
    pub async fn ping(&self) -> Result<(), RedisError> {
        self.query::<String>(&["PING"]).await.map(drop)
    }
}

/// Response timeout: 60 s. This is long enough for a slow script on a loaded machine, and short
/// enough to fail a test with a paused server.
const PATIENCE: Duration = Duration::from_secs(60);
