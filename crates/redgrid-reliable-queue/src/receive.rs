//! Receiving: the builders.

use std::pin::Pin;
use std::time::Duration;

use redgrid_codecs::Codec;
use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::wait_queue::WaitEnd;

use crate::ask::{MOST, Wish};
use crate::delivery::Delivery;
use crate::error::QueueError;
use crate::queue::ReliableQueue;
use crate::receivers::{ReceiveRequest, Received, Receivers};
use crate::settings::visibility_of;

type Boxed<O> = Pin<Box<dyn Future<Output = O> + Send>>;

/// What all who receive may say.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    visibility: Option<Duration>,
    within: Option<Duration>,
    back_on_drop: bool,
}

/// Receives one message: made by [`ReliableQueue::receive`], asked when it is awaited.
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct Receive<T, C> {
    queue: ReliableQueue<T, C>,
    options: Options,
}

/// Receives several messages: made by [`ReliableQueue::receive_many`], asked when it is awaited.
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct ReceiveMany<T, C> {
    queue: ReliableQueue<T, C>,
    most: usize,
    options: Options,
}

macro_rules! options {
    ($receive:ident) => {
        impl<T, C> $receive<T, C> {
            /// For how long nobody else is given the message: 1 ms to 3650 days. As the queue's settings say unless this is said, else 30 s.
            /// Longer than the work takes; [`Delivery::extend`] moves the end.
            pub fn visibility(mut self, visibility: Duration) -> Self {
                self.options.visibility = Some(visibility);
                self
            }

            /// How long is waited for a message. Without this, until there is one; with [`Duration::ZERO`] not at all, but for the server's
            /// answer.
            pub fn timeout(mut self, within: Duration) -> Self {
                self.options.within = Some(within);
                self
            }

            /// Has a [`Delivery`] that is dropped before it is settled go back at once, as by [`Delivery::nack`] without a delay. Without
            /// this it comes back when its visibility is over.
            pub fn back_on_drop(mut self) -> Self {
                self.options.back_on_drop = true;
                self
            }
        }
    };
}

options!(Receive);
options!(ReceiveMany);

impl<T, C> Receive<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>) -> Self {
        Receive { queue, options: Options::default() }
    }
}

impl<T, C> ReceiveMany<T, C> {
    pub(crate) fn new(queue: ReliableQueue<T, C>, most: usize) -> Self {
        ReceiveMany { queue, most, options: Options::default() }
    }
}

impl<T: 'static, C: Codec + Clone> IntoFuture for Receive<T, C> {
    type Output = Result<Delivery<T, C>, QueueError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut given = received(&self.queue, 1, self.options).await?;
            match given.pop() {
                Some(delivery) => Ok(delivery),
                None => {
                    let (name, waited) = (self.queue.desk()?.name.clone(), self.options.within.unwrap_or_default());
                    Err(QueueError::TimedOut { name, waited })
                }
            }
        })
    }
}

impl<T: 'static, C: Codec + Clone> IntoFuture for ReceiveMany<T, C> {
    type Output = Result<Vec<Delivery<T, C>>, QueueError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { received(&self.queue, self.most, self.options).await })
    }
}

/// Waits for messages; returns none if the time is over.
async fn received<T: 'static, C: Codec + Clone>(
    queue: &ReliableQueue<T, C>,
    most: usize,
    options: Options,
) -> Result<Vec<Delivery<T, C>>, QueueError> {
    let desk = queue.desk()?;
    if !(1..=MOST).contains(&most) {
        return Err(queue.object_ref().invalid("number of messages", "1 to 100", most).into());
    }
    options.visibility.map(|visibility| visibility_of(queue.object_ref(), visibility)).transpose()?;
    let clock = desk.client.clock();
    let try_only = options.within.is_some_and(|within| within.is_zero());
    // A receive without a wait has the time of any other request: the poll bounds it.
    let until = options.within.filter(|within| !within.is_zero()).map(|within| clock.now() + within);
    loop {
        let wish = Wish { most, visibility: options.visibility };
        let mut waiter = Receivers::of(desk).enter(ReceiveRequest { wish, try_only });
        let end = tokio::select! {
            biased;
            end = waiter.ended() => end,
            () = clock.sleep_until(until.unwrap_or(Instant::MAX)), if until.is_some() => match waiter.out_of_contact() {
                Some(error) => WaitEnd::Failed(error),
                None => WaitEnd::Completed(Received::Nothing),
            },
        };
        return match end {
            WaitEnd::Completed(Received::Messages(offer)) => {
                // Messages that were not taken in time have gone back to the queue: ask again.
                let Some(granted) = offer.take() else { continue };
                let delivery = |given| Delivery::new(queue, desk, given, options.back_on_drop);
                Ok(granted.take().into_iter().map(delivery).collect())
            }
            WaitEnd::Completed(Received::Nothing) => Ok(Vec::new()),
            WaitEnd::Failed(source) => Err(ObjectError::of_read(&desk.name, source).into()),
            WaitEnd::ShuttingDown => Err(match desk.client.ended() {
                ServerError::ShuttingDown => QueueError::ShuttingDown { name: desk.name.clone() },
                source => ObjectError::of_read(&desk.name, source).into(),
            }),
        };
    }
}
