//! Replies that look like messages of a subscription, and slow replies.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redgrid_bucket::Bucket;
use redgrid_core::config::{Dialer, Stream};
use redgrid_list::List;
use redgrid_list::codecs::{Raw, Text};
use redgrid_tests::{SOON, client, client_with, server};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The first words of messages and confirmations, which RESP2 sends as plain lists.
const WORDS: [&str; 10] = [
    "message",
    "pmessage",
    "smessage",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "pubsub",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_looks_like_a_message_is_a_list() {
    let server = server().await;
    for protocol in ["resp3", "resp2"] {
        let client = client_with(&format!("{}?protocol={protocol}", server.url()), |config| config).await;
        for word in WORDS {
            for rest in [&["a", "b"][..], &["message", "b", "c"], &["a", "b", "c", "d"]] {
                let name = format!("{protocol}:{word}:{}", rest.len());
                let list: List<String, Text> = List::new(&client, name.as_str());
                let elements: Vec<String> = [word].iter().chain(rest).map(|element| (*element).to_owned()).collect();
                list.push_many(&elements).await.unwrap();
                // The next reply on the connection belongs to the next request.
                let (read, length) = tokio::join!(list.read_all(), list.len());
                assert_eq!((read.unwrap(), length.unwrap()), (elements, rest.len() as u64 + 1), "{protocol} {word}");
            }
        }
        client.shutdown(SOON).await.unwrap();
    }
}

/// Connections that forward one piece at a time in each direction: 1 MiB per second.
#[derive(Clone)]
struct Narrow {
    dials: Arc<AtomicUsize>,
}

const PIECE: usize = 16 << 10;
const PIECE_TAKES: Duration = Duration::from_millis(16);

#[async_trait]
impl Dialer for Narrow {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        self.dials.fetch_add(1, Ordering::SeqCst);
        let (near, far) = tokio::io::duplex(PIECE);
        let (from_client, to_client) = tokio::io::split(far);
        let (from_server, to_server) = TcpStream::connect((host, port)).await?.into_split();
        tokio::spawn(carry(from_client, to_server));
        tokio::spawn(carry(from_server, to_client));
        Ok(Box::new(near))
    }
}

async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        tokio::time::sleep(PIECE_TAKES * count as u32 / PIECE as u32).await;
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_long_reply_or_request_is_not_silent() {
    let server = server().await;
    let narrow = Narrow { dials: Arc::default() };
    let slow = client_with(&server.url(), |config| {
        // The value takes four seconds. That is longer than the timeout of a request, and than a
        // server may be silent.
        config.response_timeout(Duration::from_secs(3)).dialer(narrow.clone())
    })
    .await;
    let dials = narrow.dials.load(Ordering::SeqCst);
    let value = vec![7_u8; 4 << 20];
    Bucket::<Vec<u8>, Raw>::new(&client(&server).await, "long").set(&value).await.unwrap();
    let bucket: Bucket<Vec<u8>, Raw> = Bucket::new(&slow, "long");
    // A request sent meanwhile gets its reply after the value.
    let (long, short) = tokio::join!(bucket.get(), slow.command("DBSIZE").query::<i64>());
    assert!(long.unwrap().as_ref() == Some(&value));
    assert_eq!(short.unwrap(), 1);
    bucket.set(&value).await.unwrap();
    assert_eq!(narrow.dials.load(Ordering::SeqCst), dials, "no connection was replaced");
}
