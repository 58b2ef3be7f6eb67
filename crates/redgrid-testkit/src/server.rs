//! A real server for a test.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use tempfile::TempDir;
use tokio::{task::spawn_blocking, time::Instant};
use url::Url;

use crate::{
    builder::{Role, ServerBuilder, TESTKIT_USER, TlsClients},
    find::ServerBinary,
    observer::Observer,
    port::ReservedAddress,
    start_error::StartError,
    supervisor::{Supervisor, has_ended, is_stopped, stop_or_continue},
    tls::{self, Authority, Tls},
};

/// A Redis or Valkey server owned by this value: its own process, port and folder.
///
/// When the value is dropped, the server ends and its folder is deleted. This also happens when
/// this process ends in any other way, including `kill -9`. The server keeps its port over
/// restarts. The methods need a Tokio runtime with I/O and time enabled, but not always the same
/// one: tests with their own runtimes may share a server.
#[derive(Debug)]
pub struct RedisServer {
    addr: SocketAddr,
    /// Keeps the port while the server is down.
    _address: Box<ReservedAddress>,
    binary: ServerBinary,
    password: Option<String>,
    append_only: bool,
    role: Role,
    tls: Option<Tls>,
    announces_tls: bool,
    socket: bool,
    testkit_secret: String,
    folder: PathBuf,
    process: Arc<Mutex<Process>>,
}

#[derive(Debug)]
struct Process {
    supervisor: Supervisor,
    pid: Option<Pid>,
    // The supervisor deletes the folder; this value deletes it if the supervisor fails.
    _folder: TempDir,
}

impl RedisServer {
    /// Starts a server without persistence, password or further options.
    ///
    /// # Errors
    ///
    /// As for [`ServerBuilder::start`].
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// Returns a builder for options; [`ServerBuilder::start`] then starts the server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    pub(crate) async fn start_with(builder: ServerBuilder) -> Result<Self, StartError> {
        let binary = match &builder.binary {
            Some(binary) => binary.clone(),
            None => ServerBinary::find()?,
        };
        for _ in 0..START_TRIES {
            match Self::start_on_a_free_port(&builder, &binary).await {
                Err(StartError::PortTaken { .. }) => {}
                outcome => return outcome,
            }
        }
        Self::start_on_a_free_port(&builder, &binary).await
    }

    async fn start_on_a_free_port(builder: &ServerBuilder, binary: &ServerBinary) -> Result<Self, StartError> {
        let folder = tempfile::Builder::new().prefix("redgrid-testkit-").tempdir()?;
        let options = if builder.role == Role::Sentinel { &["--sentinel"][..] } else { &[] };
        let address = builder.role.free_address()?;
        let addr = address.addr();
        let testkit_secret = uuid::Uuid::new_v4().simple().to_string();
        let data = folder.path().join(DATA);
        fs::create_dir(&data)?;
        let configuration = folder.path().join("server.conf");
        let tls = match (builder.tls, &builder.authority) {
            (None, _) => None,
            (Some(_), Some(authority)) => Some(Tls::new(builder.role.free_address()?, folder.path(), authority)?),
            (Some(_), None) => Some(Tls::new(ReservedAddress::new()?, folder.path(), &Authority::new()?)?),
        };
        let mut text = builder.configuration(addr, &data, binary.version(), &testkit_secret);
        if let Some(tls) = &tls {
            text.push_str(&tls.configuration(builder.tls == Some(TlsClients::Certified)));
            if builder.authority.is_some() {
                text.push_str("tls-replication yes\n");
                if builder.role == Role::ClusterNode {
                    text.push_str("tls-cluster yes\n");
                }
            }
        }
        if builder.socket {
            text.push_str(&format!("unixsocket {}\n", folder.path().join(SOCKET).display()));
        }
        fs::write(&configuration, text)?;
        let supervisor = Supervisor::start(binary.path(), &configuration, folder.path(), options)?;
        let server = Self {
            addr,
            _address: Box::new(address),
            binary: binary.clone(),
            password: builder.password.clone(),
            append_only: builder.append_only,
            role: builder.role,
            tls,
            announces_tls: builder.authority.is_some(),
            socket: builder.socket,
            testkit_secret,
            folder: folder.path().to_owned(),
            process: Arc::new(Mutex::new(Process { supervisor, pid: None, _folder: folder })),
        };
        server.start_process().await?;
        Ok(server)
    }

    /// Returns the loopback address of the server; a restart keeps it.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the address announced to clients and to other servers. In a TLS deployment this is
    /// the TLS address, otherwise [`addr`](Self::addr).
    pub fn announced(&self) -> SocketAddr {
        self.tls.as_ref().filter(|_| self.announces_tls).map_or(self.addr, Tls::addr)
    }

    /// Returns `redis://127.0.0.1:port`, with the password of the default user if there is one.
    pub fn url(&self) -> String {
        self.url_via(self.addr)
    }

    /// Like [`url`](Self::url), with another address that leads to this server, such as a
    /// [`Proxy`](crate::Proxy)'s.
    pub fn url_via(&self, addr: SocketAddr) -> String {
        with_credentials(addr, "", self.password.as_deref())
    }

    /// Returns the URL for another user, see [`ServerBuilder::user`].
    pub fn url_for(&self, user: &str, password: &str) -> String {
        with_credentials(self.addr, user, Some(password))
    }

    /// Returns the port and the certificates for TLS, see [`ServerBuilder::tls`].
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns `rediss://127.0.0.1:port` if the server accepts TLS connections, with the password
    /// if there is one.
    pub fn tls_url(&self) -> Option<String> {
        self.tls().map(|tls| self.url_via(tls.addr()).replacen("redis:", "rediss:", 1))
    }

    /// Returns the server's Unix socket, see [`ServerBuilder::socket`].
    pub fn socket(&self) -> Option<PathBuf> {
        self.socket.then(|| self.folder.join(SOCKET))
    }

    /// Returns the server program.
    pub fn binary(&self) -> &ServerBinary {
        &self.binary
    }

    /// Returns the process id; `None` while the server is down.
    pub fn pid(&self) -> Option<u32> {
        self.lock().pid.and_then(|pid| u32::try_from(pid.as_raw()).ok())
    }

    /// Returns whether the server can answer: it is neither down nor paused.
    pub fn is_running(&self) -> bool {
        self.lock().pid.is_some_and(|pid| !has_ended(pid) && !is_stopped(pid))
    }

    /// Returns the server's log.
    pub fn log(&self) -> String {
        fs::read(self.folder.join("server.log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    /// Connects to the server with all permissions. Restrictions of other users do not affect the
    /// connection.
    ///
    /// # Errors
    ///
    /// The server did not accept the connection.
    pub async fn observer(&self) -> Result<Observer, redis::RedisError> {
        let observer =
            Observer::connect(&with_credentials(self.addr, TESTKIT_USER, Some(&self.testkit_secret))).await?;
        // The name lets a monitor exclude this connection. A server may lack the command.
        match observer.cmd(&["CLIENT", "SETNAME", TESTKIT_USER]).await {
            Err(error) if error.code() != Some("ERR") => Err(error),
            _ => Ok(observer),
        }
    }

    /// Returns the name and the password of the testkit's own user.
    pub(crate) fn testkit_login(&self) -> (&str, &str) {
        (TESTKIT_USER, &self.testkit_secret)
    }

    /// Kills the server (-9) and waits for its end. If the server is down, nothing happens.
    ///
    /// # Errors
    ///
    /// The supervisor process is gone; the state of the server is unknown.
    pub async fn kill(&self) -> io::Result<()> {
        self.with_process(|process| {
            process.supervisor.kill_server()?;
            process.pid = None;
            Ok(())
        })
        .await
    }

    /// Restarts without data; a running server is killed (-9) first. Scripts are lost, and users
    /// are those of the start.
    ///
    /// The server's information about other servers stays: the members of its cluster, the primary
    /// set by a sentinel, and the state of a sentinel.
    ///
    /// # Errors
    ///
    /// [`StartError`]; the server is then down.
    pub async fn restart_empty(&self) -> Result<(), StartError> {
        self.kill().await?;
        let data = self.folder.join(DATA);
        fs::remove_dir_all(&data)?;
        fs::create_dir(&data)?;
        self.start_process().await
    }

    /// Restarts with its data; a running server is killed (-9) first.
    ///
    /// With [`append_only`](ServerBuilder::append_only), its data is every acknowledged write.
    /// Otherwise the server saves its data before it is killed; a server that is already down has
    /// the data of its last save. Users are those of the start.
    ///
    /// # Errors
    ///
    /// [`StartError`]. The server is then down, or, if it could not save its data, still running.
    pub async fn restart_with_data(&self) -> Result<(), StartError> {
        if !self.append_only && self.role != Role::Sentinel && self.pid().is_some() {
            let saved = async { self.observer().await?.cmd(&["SAVE"]).await };
            saved.await.map_err(|source| StartError::NotSaved { source })?;
        }
        self.kill().await?;
        self.start_process().await
    }

    /// Stops the server's process (SIGSTOP): connections stay open, and requests get no reply.
    ///
    /// # Errors
    ///
    /// The server is down.
    pub async fn pause(&self) -> io::Result<()> {
        self.with_process(|process| stop_or_continue(process.pid.ok_or_else(down)?, Signal::SIGSTOP)).await
    }

    /// Resumes a paused server (SIGCONT). If the server was not paused, nothing happens.
    ///
    /// # Errors
    ///
    /// The server is down.
    pub async fn resume(&self) -> io::Result<()> {
        self.with_process(|process| stop_or_continue(process.pid.ok_or_else(down)?, Signal::SIGCONT)).await
    }

    /// Starts the process with the existing files, and waits until it answers.
    async fn start_process(&self) -> Result<(), StartError> {
        let log_before = self.log().len();
        let pid = self
            .with_process(|process| {
                let pid = process.supervisor.start_server()?;
                process.pid = Some(pid);
                Ok(pid)
            })
            .await?;
        let outcome = self.until_ready(pid, log_before).await;
        if outcome.is_err() {
            self.kill().await?;
        }
        outcome
    }

    async fn until_ready(&self, pid: Pid, log_before: usize) -> Result<(), StartError> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if has_ended(pid) {
                let log = self.log().get(log_before..).unwrap_or_default().to_owned();
                return Err(if log.contains("Failed listening on port") || log.contains("Address already in use") {
                    StartError::PortTaken { addr: self.addr }
                } else if self.tls.is_some() && tls::is_missing(&log) {
                    StartError::NoTls { path: self.binary.path().to_owned() }
                } else {
                    StartError::Exited { log }
                });
            }
            if let Ok(observer) = self.observer().await
                && observer.ping().await.is_ok()
            {
                // Only this server accepts the testkit's password, so the reply is from it.
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(StartError::NotReady { waited: READY_WITHIN, log: self.log() });
            }
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// Runs `work` on the server's process, on a blocking thread.
    async fn with_process<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Process) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let process = Arc::clone(&self.process);
        let work = spawn_blocking(move || work(&mut process.lock().unwrap_or_else(PoisonError::into_inner)));
        work.await.map_err(io::Error::other)?
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the folder of this server: its configuration, log and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn down() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the server is down")
}

fn with_credentials(addr: SocketAddr, user: &str, password: Option<&str>) -> String {
    let plain = format!("redis://{addr}");
    // An address is always a valid host and port; `Url` only escapes the password.
    match (password, Url::parse(&plain)) {
        (Some(password), Ok(mut url)) => match (url.set_username(user), url.set_password(Some(password))) {
            (Ok(()), Ok(())) => url.to_string(),
            _ => plain,
        },
        _ => plain,
    }
}

/// The folder of the data files, inside the server's folder.
const DATA: &str = "data";

/// The socket, inside the server's folder. The name is short: a socket's path may have only some
/// 100 bytes.
const SOCKET: &str = "s";

/// How many ports are tried. Ports are random, so one retry is already rare.
const START_TRIES: usize = 4;

/// Timeout of a start: 120 s. A start takes about 20 ms, and longer on a loaded machine.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// Poll interval of a start: 5 ms, a fraction of its duration.
const READY_POLL: Duration = Duration::from_millis(5);
