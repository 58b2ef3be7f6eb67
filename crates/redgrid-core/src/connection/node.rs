//! One node on fred: a connection for requests, and one that carries subscriptions and nothing else; where
//! durability is asked for, one more for each level of it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use fred::prelude::Value;
use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::commit::Commits;
use super::link::{Greeting, Link, Named};
use super::request::What;
use super::subscriber::Subscriber;
use super::{Arg, CommitError, Epoch, NodeId, Push, Reply, Request, Server, ServerClock};
use crate::clock::Clock;
use crate::config::{Access, Address, Durability, Settings};
use crate::error::{Code, ServerError};

pub(super) struct Node {
    id: NodeId,
    clock: Clock,
    time: Arc<ServerClock>,
    commands: Arc<Link>,
    subscriber: Subscriber,
    commits: Commits,
    watchers: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Node {
    pub(super) fn open(
        (address, access): (&Address, &Access),
        settings: &Settings,
        clock: Clock,
        client_name: &str,
    ) -> Result<Self, ServerError> {
        let time = Arc::new(ServerClock::default());
        let open = |name, greeting| Link::open((address, access), settings, clock.clone(), name, greeting);
        let (commands, watching) = open(client_name.to_owned(), Greeting::Clock(Arc::clone(&time)))?;
        let (subscriptions, also_watching) = open(format!("{client_name}:subscriber"), Greeting::Life)?;
        let (subscriber, reading) = Subscriber::open(subscriptions);
        let commits = Commits::new(Arc::clone(&commands), (address, access), settings, clock.clone(), client_name);
        Ok(Node {
            id: NodeId(address.to_string().into()),
            clock,
            time,
            commands,
            subscriber,
            commits,
            watchers: vec![watching, also_watching, reading].into(),
        })
    }

    async fn one(&self, request: Request) -> Result<Reply, ServerError> {
        let (command, head) = match &request.what {
            What::Command(name) => (Named::Any(name.clone()), Vec::new()),
            What::Script(body) => (Named::Known("EVALSHA"), vec![Value::from(body.sha().clone())]),
        };
        let args = self.arguments(&request, head)?;
        match (self.commands.send(command, args).await, &request.what) {
            (Err(ServerError::Refused { code: Code::NoScript, .. }), What::Script(body)) => {
                // Not carried out, so sending it once more is safe; its time limit is written anew.
                let args = self.arguments(&request, vec![Value::from_static_str(body.text())])?;
                // Boxed: it is rare, and the future of every call would have room for it.
                Box::pin(self.commands.send(Named::Known("EVAL"), args)).await
            }
            (answer, _) => answer,
        }
    }

    fn arguments(&self, request: &Request, mut head: Vec<Value>) -> Result<Vec<Value>, ServerError> {
        head.reserve(1 + request.keys.len() + request.args.len());
        if let What::Script(_) = request.what {
            head.push(Value::from(request.keys.len() as i64));
        }
        head.extend(request.keys.iter().cloned().map(Value::from));
        for arg in &request.args {
            head.push(match arg {
                Arg::Bytes(bytes) => Value::from(bytes.clone()),
                Arg::NotAfter => Value::from(self.not_after(request)?),
            });
        }
        Ok(head)
    }

    fn not_after(&self, request: &Request) -> Result<Bytes, ServerError> {
        let now = self.clock.now();
        let limit = request.not_after.ok_or_else(|| ServerError::not_sent("the request has no time limit"))?;
        let micros =
            self.time.at(limit, now).ok_or_else(|| ServerError::not_sent("the server's clock is not known yet"))?;
        Ok(micros.to_string().into())
    }
}

#[async_trait]
impl Server for Node {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, mut requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        if !self.commands.is_up() {
            return requests.iter().map(|_| Err(self.commands.down())).collect();
        }
        match requests.len() {
            1 => vec![self.one(requests.remove(0)).await],
            // Polled in their order for the first time, and a first poll hands the bytes to fred.
            _ => Box::pin(join_all(requests.into_iter().map(|request| self.one(request)))).await,
        }
    }

    async fn commit(&self, since: Epoch, durability: Durability, tag: &[u8]) -> Result<(), CommitError> {
        self.commits.commit(since, durability, tag).await
    }

    fn epoch(&self) -> watch::Receiver<Option<Epoch>> {
        self.commands.epoch()
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, channels: Vec<Bytes>) -> Result<(), ServerError> {
        self.subscriber.subscribe(channels).await
    }

    async fn unsubscribe(&self, channels: Vec<Bytes>) {
        self.subscriber.unsubscribe(channels).await;
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.subscriber.pushes()
    }

    async fn close(&self) {
        self.commands.close();
        self.subscriber.close();
        let watchers = std::mem::take(&mut *self.watchers.lock().unwrap_or_else(|p| p.into_inner()));
        for watcher in watchers {
            let _ = watcher.await;
        }
        self.commits.close().await;
    }
}
