//! Listeners that are not Redis servers, or behave strangely.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The behaviour of a listener on each connection.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// The listener closes the connection at once.
    Closes,
    /// The listener answers the first request with these bytes, and closes the connection.
    AnswersOnce(&'static [u8]),
    /// The listener answers each request with these bytes.
    Answers(&'static [u8]),
    /// The listener sends these bytes before any request, and nothing more.
    Greets(&'static [u8]),
}

/// A listener on the loopback interface. It ends when it is dropped.
pub(crate) struct Fake {
    addr: SocketAddr,
    serving: JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start(manner: Manner) -> Fake {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = socket.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                tokio::spawn(serve(stream, manner));
            }
        });
        Fake { addr, serving }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

async fn serve(mut stream: TcpStream, manner: Manner) {
    let mut question = [0; 512];
    let (greeting, answer, is_once) = match manner {
        Manner::Closes => return,
        Manner::AnswersOnce(answer) => (&b""[..], answer, true),
        Manner::Answers(answer) => (&b""[..], answer, false),
        Manner::Greets(greeting) => (greeting, &b""[..], false),
    };
    let _ = stream.write_all(greeting).await;
    while stream.read(&mut question).await.is_ok_and(|count| count > 0) {
        if stream.write_all(answer).await.is_err() || is_once {
            return;
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
