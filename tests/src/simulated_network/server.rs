//! The [`Server`] of one client on a simulated network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::{ChannelKind, ConnectionId, NodeId, Push, Refused, Reply, Request, ServerClock, ServerError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::scripts::Call;
use super::world::{Pending, World};

/// A client's connections to the server of a [`World`].
pub struct SimulatedServer {
    id: NodeId,
    world: Arc<World>,
    client: usize,
    clock: Clock,
    time: Arc<ServerClock>,
    timeout: Duration,
    pushes: Mutex<Option<mpsc::UnboundedReceiver<Push>>>,
}

impl SimulatedServer {
    /// Creates the connections of a new client with this response timeout.
    pub fn new(world: Arc<World>, clock: Clock, timeout: Duration) -> Self {
        let time = Arc::new(ServerClock::default());
        let (client, pushes) = world.connect(clock.clone(), Arc::clone(&time));
        let id = NodeId("lossy:0".into());
        SimulatedServer { id, world, client, clock, time, timeout, pushes: Mutex::new(Some(pushes)) }
    }

    /// Returns the number of this client in the world.
    pub fn client(&self) -> usize {
        self.client
    }

    fn send(&self, request: &Request) -> Result<(Call, Pending), ServerError> {
        let not_after = match request.limit() {
            Some(limit) if request.is_limited() => {
                let micros = self.time.at(limit, self.clock.now());
                let reason = "the server's clock is not known yet";
                micros.ok_or(ServerError::NotSent { reason: reason.into() })?.to_string().into()
            }
            _ => Bytes::new(),
        };
        let call = Call::of(request, &not_after);
        let pending = self.world.submit(self.client, call.clone())?;
        Ok((call, pending))
    }

    async fn answer(&self, mut pending: Pending, sent: Instant) -> Result<Reply, ServerError> {
        let connection = Some(pending.connection);
        tokio::select! {
            biased;
            Ok(answer) = &mut pending.answer => answer,
            _ = pending.epoch.wait_for(|epoch| epoch.as_ref().map(|epoch| epoch.connection) != connection) => {
                Err(ServerError::Unknown { reason: "the connection was lost".into() })
            }
            () = tokio::time::sleep_until(sent + self.timeout) => {
                Err(ServerError::Unknown { reason: "no answer came in time".into() })
            }
        }
    }
}

#[async_trait]
impl Server for SimulatedServer {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        let sent = Instant::now();
        let in_flight: Vec<_> = requests.iter().map(|request| self.send(request)).collect();
        let mut answers = Vec::with_capacity(in_flight.len());
        for one in in_flight {
            answers.push(match one {
                Ok((call, pending)) => {
                    let answer = self.answer(pending, sent).await;
                    self.world.delivered(self.client, &call, &answer, sent);
                    answer
                }
                Err(error) => Err(error),
            });
        }
        answers
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.world.epoch(self.client)
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, _: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        let confirmed = self.world.listen(self.client, channels.clone(), true)?;
        match tokio::time::timeout(self.timeout, confirmed).await {
            Ok(Ok(Err(denied))) if denied.code().is_some() => {
                Ok(channels.into_iter().map(|channel| (channel, denied.clone())).collect())
            }
            Ok(Ok(result)) => result.map(|()| Refused::new()),
            Ok(Err(_)) => Err(ServerError::Unknown { reason: "the connection was replaced".into() }),
            Err(_) => {
                // It is unknown which of the client's subscriptions are active.
                self.world.give_up_subscriber(self.client);
                Err(ServerError::Unknown { reason: "no answer came in time".into() })
            }
        }
    }

    async fn unsubscribe(&self, _: ChannelKind, channels: Vec<Bytes>) {
        if let Ok(confirmed) = self.world.listen(self.client, channels, false) {
            let _ = tokio::time::timeout(self.timeout, confirmed).await;
        }
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        let taken = self.pushes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        taken.unwrap_or_else(|| mpsc::unbounded_channel().1)
    }

    async fn close(&self) {
        self.world.close(self.client);
    }
}
