//! The replication link, which can be blocked while both ends keep their connection.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Passes bytes on. A held pipe keeps what the server sends, and delivers it afterwards. Dropping
/// the pipe closes its connections.
pub(crate) struct Pipe {
    pub(crate) addr: SocketAddr,
    held: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Pipe {
    pub(crate) async fn to(server: SocketAddr) -> Pipe {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let held = watch::Sender::new(false);
        let is_held = held.subscribe();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                links.spawn(pass(client, server, is_held.clone()));
            }
        });
        Pipe { addr, held, _tasks: tasks }
    }

    /// Holds back what the primary sends, or lets it pass again.
    pub(crate) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

async fn pass(client: TcpStream, server: TcpStream, mut held: watch::Receiver<bool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let back = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_server.read(&mut buffer).await?;
            if read == 0 || held.wait_for(|held| !held).await.is_err() {
                return Ok(());
            }
            to_client.write_all(&buffer[..read]).await?;
        }
    };
    // When one direction ends, the pipe closes both connections.
    tokio::select! {
        _ = there => {}
        _ = async { back.await as std::io::Result<()> } => {}
    }
}
