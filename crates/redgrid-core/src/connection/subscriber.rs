//! The connection that carries subscriptions: SUBSCRIBE, UNSUBSCRIBE and PING, nothing else.
//!
//! fred answers a SUBSCRIBE before the server has it, and an error reply to it (a denied channel) is handed to the next
//! command on the connection. So every SUBSCRIBE is followed by a PING on the same connection: a PONG proves that it is
//! in force; any other answer shifts all later ones, and the connection is made anew.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fred::interfaces::{EventInterface, PubsubInterface};
use fred::prelude::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::link::Link;
use super::{Push, Reply};
use crate::error::ServerError;

pub(super) struct Subscriber {
    link: Arc<Link>,
    /// One exchange at a time: a SUBSCRIBE and its PING are not to be torn apart.
    turn: tokio::sync::Mutex<()>,
    pushes: Mutex<Option<mpsc::UnboundedReceiver<Push>>>,
}

impl Subscriber {
    pub(super) fn open(link: Arc<Link>) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let reading = tokio::spawn(read(Arc::clone(&link), sender));
        (Subscriber { link, turn: tokio::sync::Mutex::new(()), pushes: Mutex::new(Some(receiver)) }, reading)
    }

    pub(super) async fn subscribe(&self, channels: Vec<Bytes>) -> Result<(), ServerError> {
        if channels.is_empty() {
            return Ok(());
        }
        let channels = as_text(channels)?;
        let _turn = self.turn.lock().await;
        if !self.link.is_up() {
            return Err(self.link.down());
        }
        let sent = self.link.fred().subscribe(channels).await;
        if let Err(error) = sent {
            return Err(ServerError::unknown(error.details().to_owned()));
        }
        match self.link.send_static("PING", Vec::new()).await {
            Ok(Reply::Bytes(pong)) if &pong[..] == b"PONG" => Ok(()),
            Ok(other) => {
                self.link.renew().await;
                Err(ServerError::unknown(format!("a PING was answered by {other:?}")))
            }
            Err(error) => {
                self.link.renew().await;
                Err(error)
            }
        }
    }

    pub(super) async fn unsubscribe(&self, channels: Vec<Bytes>) {
        let Ok(channels) = as_text(channels) else { return };
        let _turn = self.turn.lock().await;
        // An UNSUBSCRIBE without channels would end them all.
        if !channels.is_empty() && self.link.is_up() {
            let _ = self.link.fred().unsubscribe(channels).await;
        }
    }

    pub(super) fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let taken = self.pushes.lock().unwrap_or_else(|p| p.into_inner()).take();
        taken.unwrap_or_else(|| mpsc::unbounded_channel().1)
    }

    pub(super) fn close(&self) {
        self.link.close();
    }
}

/// Hands messages on, and tells a gap for each new connection and whenever some were missed.
async fn read(link: Arc<Link>, sender: mpsc::UnboundedSender<Push>) {
    let mut messages = link.fred().message_rx();
    let mut epoch = link.epoch();
    let mut told = 0;
    let closing = link.closing();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            // Messages first: those of the old connection belong before the gap.
            biased;
            message = messages.recv() => match message {
                Ok(message) => {
                    let payload = match message.value {
                        Value::Bytes(bytes) => bytes,
                        Value::String(text) => text.into_inner(),
                        Value::Integer(n) => n.to_string().into(),
                        _ => continue,
                    };
                    let _ = sender.send(Push::Message { channel: message.channel.into_inner(), payload });
                }
                Err(RecvError::Lagged(_)) => { let _ = sender.send(Push::Gap); }
                Err(RecvError::Closed) => return,
            },
            () = &mut closing => return,
            changed = epoch.changed() => {
                if changed.is_err() { return }
                let connection = epoch.borrow_and_update().as_ref().map(|epoch| epoch.connection);
                if let Some(connection) = connection.filter(|connection| *connection != told) {
                    told = connection;
                    let _ = sender.send(Push::Gap);
                }
            }
        }
    }
}

fn as_text(channels: Vec<Bytes>) -> Result<Vec<String>, ServerError> {
    let text = channels.into_iter().map(|channel| String::from_utf8(channel.to_vec()));
    text.collect::<Result<_, _>>().map_err(|_| ServerError::not_sent("a channel name is not UTF-8"))
}
