use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

/// Returns a connection, the server's end of it, and the receiver of its messages.
fn connected(is_resp2: bool, room: usize) -> (Pipeline, DuplexStream, mpsc::UnboundedReceiver<Push>) {
    let (near, far) = tokio::io::duplex(room);
    let (messages, pushes) = mpsc::unbounded_channel();
    let outputs = Outputs { silence: Arc::default(), clock: Clock::runtime(), messages, is_socket: true };
    (Pipeline::start(Box::new(near), is_resp2, outputs), far, pushes)
}

fn get(pipeline: &Pipeline) -> oneshot::Receiver<Answer> {
    pipeline.enqueue(&["GET".into(), "k".into()], Expects::Reply).unwrap()
}

fn subscribe(pipeline: &Pipeline, command: &'static str, channels: &[&'static str]) -> oneshot::Receiver<Answer> {
    let channels: Vec<_> = channels.iter().map(|channel| Bytes::from_static(channel.as_bytes())).collect();
    let request: Vec<_> = std::iter::once(command.into()).chain(channels.iter().cloned()).collect();
    pipeline.enqueue(&request, Expects::Confirmations(command, channels)).unwrap()
}

fn text(text: &'static str) -> Reply {
    Reply::Bytes(text.into())
}

/// Returns an array as a server sends it; a push if `sign` is `>`.
fn list(sign: char, parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("${}\r\n{part}\r\n", part.len())).collect();
    format!("{sign}{}\r\n{parts}", parts.matches('$').count())
}

async fn say(server: &mut DuplexStream, what: &str) {
    server.write_all(what.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_requests_also_after_a_drop() {
    let (pipeline, mut server, _messages) = connected(false, 1024);
    let (first, second, third) = (get(&pipeline), get(&pipeline), get(&pipeline));
    drop(second);
    let mut received = vec![0; 3 * b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".len()];
    server.read_exact(&mut received).await.unwrap();
    say(&mut server, "$1\r\na\r\n$1\r\nb").await;
    assert_eq!(first.await.unwrap(), Ok(text("a")));
    say(&mut server, "\r\n*3\r\n+message\r\n+c\r\n+d\r\n").await;
    assert_eq!(third.await.unwrap(), Ok(Reply::Array(vec![text("message"), text("c"), text("d")])));
}

#[tokio::test]
async fn only_a_completely_written_request_may_have_been_executed() {
    // The buffer holds one request and a part of the next.
    let (pipeline, server, _messages) = connected(false, 32);
    let (first, second, third) = (get(&pipeline), get(&pipeline), get(&pipeline));
    while !pipeline.is_midway() {
        tokio::task::yield_now().await;
    }
    drop(server);
    assert_eq!(first.await.unwrap(), Err(Unanswered::Lost));
    assert_eq!(second.await.unwrap(), Err(Unanswered::NotWritten));
    assert_eq!(third.await.unwrap(), Err(Unanswered::NotWritten));
    assert_eq!(pipeline.lost().await, CLOSED);
    assert_eq!(pipeline.enqueue(&["GET".into()], Expects::Reply).err(), Some(Unanswered::NotWritten));
}

#[tokio::test]
async fn a_subscription_is_answered_when_all_of_it_is_confirmed() {
    for (is_resp2, sign) in [(true, '*'), (false, '>')] {
        let (pipeline, mut server, mut messages) = connected(is_resp2, 1024);
        let mut both = subscribe(&pipeline, "subscribe", &["a", "b"]);
        say(&mut server, &list(sign, &["subscribe", "a", "1"])).await;
        say(&mut server, &list(sign, &["message", "a", "early"])).await;
        let message = Push::Message { channel: "a".into(), payload: "early".into() };
        assert_eq!(messages.recv().await, Some(message));
        assert!(both.try_recv().is_err(), "one is missing");
        say(&mut server, &list(sign, &["subscribe", "b", "2"])).await;
        assert_eq!(both.await.unwrap(), Ok(Reply::Nil));
        // An error is the answer to the command that caused it.
        let (denied, left) = (subscribe(&pipeline, "subscribe", &["c"]), subscribe(&pipeline, "unsubscribe", &["a"]));
        say(&mut server, "-NOPERM no\r\n").await;
        say(&mut server, &list(sign, &["unsubscribe", "a", "1"])).await;
        assert!(matches!(denied.await.unwrap(), Ok(Reply::Error(_))));
        assert_eq!(left.await.unwrap(), Ok(Reply::Nil));
    }
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_answers_no_request() {
    let (pipeline, mut server, mut messages) = connected(false, 1024);
    let joined = subscribe(&pipeline, "ssubscribe", &["a"]);
    let response = get(&pipeline);
    say(&mut server, &list('>', &["ssubscribe", "a", "1"])).await;
    say(&mut server, &list('>', &["sunsubscribe", "a", "0"])).await;
    say(&mut server, "+OK\r\n").await;
    assert_eq!((joined.await.unwrap(), response.await.unwrap()), (Ok(Reply::Nil), Ok(text("OK"))));
    assert_eq!(messages.recv().await, Some(Push::Lost { channel: "a".into() }));
}

#[tokio::test]
async fn an_unsubscription_in_a_moved_slot_takes_no_other_answer() {
    let (pipeline, mut server, mut messages) = connected(false, 1024);
    let joined = subscribe(&pipeline, "ssubscribe", &["a"]);
    let left = pipeline.leave(&["a".into()]).unwrap();
    let other = subscribe(&pipeline, "ssubscribe", &["c"]);
    let mut token = String::new();
    while !token.contains("PING") {
        token.push(char::from(server.read_u8().await.unwrap()));
    }
    server.read_exact(&mut [0; 6]).await.unwrap();
    let mut token = String::new();
    while !token.ends_with("\r\n") {
        token.push(char::from(server.read_u8().await.unwrap()));
    }
    say(&mut server, &list('>', &["ssubscribe", "a", "1"])).await;
    // The server ends the subscription by itself, and then rejects SUNSUBSCRIBE.
    say(&mut server, &list('>', &["sunsubscribe", "a", "0"])).await;
    say(&mut server, "-MOVED 7 127.0.0.1:1\r\n").await;
    say(&mut server, &format!("+{token}")).await;
    say(&mut server, &list('>', &["ssubscribe", "c", "1"])).await;
    assert_eq!(joined.await.unwrap(), Ok(Reply::Nil));
    assert!(left.await.unwrap().is_ok());
    assert_eq!(other.await.unwrap(), Ok(Reply::Nil));
    assert!(messages.try_recv().is_err(), "the channel is no longer wanted");
}

#[tokio::test]
async fn by_resp2_a_list_is_a_message_only_where_something_is_subscribed() {
    let (pipeline, mut server, _messages) = connected(true, 1024);
    let response = get(&pipeline);
    say(&mut server, &list('*', &["message", "a", "b"])).await;
    assert_eq!(response.await.unwrap(), Ok(Reply::Array(vec![text("message"), text("a"), text("b")])));
}

#[tokio::test]
async fn an_unrequested_error_is_the_reason_why_a_connection_ends() {
    let (pipeline, mut server, _messages) = connected(false, 1024);
    say(&mut server, "-ERR max number of clients reached\r\n").await;
    assert_eq!(pipeline.lost().await, "ERR max number of clients reached");
    let (pipeline, mut server, _messages) = connected(false, 1024);
    let response = get(&pipeline);
    server.read_u8().await.unwrap();
    say(&mut server, "HTTP/1.1 400 Bad Request\r\n").await;
    assert_eq!(response.await.unwrap(), Err(Unanswered::Lost));
    assert_eq!(pipeline.lost().await, NO_PROTOCOL);
}

#[tokio::test]
async fn callers_get_an_error_when_the_task_is_aborted() {
    let (near, _server) = tokio::io::duplex(1024);
    let outputs = Outputs {
        silence: Arc::default(),
        clock: Clock::runtime(),
        messages: mpsc::unbounded_channel().0,
        is_socket: true,
    };
    let pipeline = Pipeline::start(Box::new(near), false, outputs);
    let response = get(&pipeline);
    pipeline.abort();
    assert_eq!(response.await.unwrap(), Err(Unanswered::NotWritten));
    assert_eq!(pipeline.lost().await, CLOSED);
}

#[tokio::test]
async fn the_queue_of_requests_is_bounded() {
    let (pipeline, _server, _messages) = connected(false, 1024);
    let requests: Vec<_> = (0..LONGEST_QUEUE).map(|_| get(&pipeline)).collect();
    assert_eq!(pipeline.enqueue(&["GET".into()], Expects::Reply).err(), Some(Unanswered::Full));
    assert_eq!(requests.len(), LONGEST_QUEUE);
}
