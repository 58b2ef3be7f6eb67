//! What several tasks add at the same time leaves as one request.

use std::sync::Arc;

use redgrid_core::clock::Instant;
use redgrid_core::{BatchExecutor, Batcher, Client, Code, ServerError};

use crate::number::{Number, parsed};
use crate::numeral::{MOST_LISTED, Numeral, Step, Sums};

/// What one who adds is told.
pub(crate) type Told<T> = Result<Step<T>, ServerError>;

/// Both ways of adding, each shared by all handles of a client with one name.
#[derive(Clone)]
pub(crate) enum Adding<T: Numeral> {
    Plain(Arc<Batcher<Adds<T, false>>>),
    Once(Arc<Batcher<Adds<T, true>>>),
}

impl<T: Numeral> Adding<T> {
    pub(crate) fn of(number: &Number) -> Self {
        let (client, key) = (&number.client, &number.key);
        match number.once {
            false => Adding::Plain(client.shared(key, || Batcher::new(Adds::new(number)))),
            true => Adding::Once(client.shared(key, || Batcher::new(Adds::new(number)))),
        }
    }

    pub(crate) async fn add(&self, client: &Client, by: T) -> Told<T> {
        match self {
            Adding::Plain(adds) => adds.submit(client, by).await?,
            Adding::Once(adds) => adds.submit(client, by).await?,
        }
    }
}

/// Adds for all handles.
pub(crate) struct Adds<T, const ONCE: bool> {
    number: Number,
    of: std::marker::PhantomData<T>,
}

impl<T: Numeral, const ONCE: bool> Adds<T, ONCE> {
    fn new(number: &Number) -> Self {
        Adds { number: number.clone(), of: std::marker::PhantomData }
    }

    /// Adds all of them as one summand: nothing where that is too much.
    async fn as_one(&self, sums: Sums<T>, batch: &[T], until: Instant) -> Option<Vec<Told<T>>> {
        let sum = text((sums.sum)(batch));
        let now = match ONCE {
            false => self.number.command("INCRBY", sum, until).await,
            true => self.number.add_each(&[sum], until).await.map(|mut numbers| numbers.pop().unwrap_or_default()),
        };
        let now = now.and_then(|now| if now.is_empty() { Err(overflow()) } else { Ok(now) });
        match now {
            Ok(now) => Some(match parsed(&now) {
                Ok(now) => (sums.share_out)(now, batch).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); batch.len()],
            }),
            Err(error) if error.is_overflow() && batch.len() > 1 => None,
            Err(error) => Some(vec![Err(error); batch.len()]),
        }
    }

    /// Adds one after the other, each told its own. After one script that was not answered, those behind do not leave.
    async fn one_by_one(&self, batch: &[T], until: Instant) -> Vec<Told<T>> {
        let mut told = Vec::with_capacity(batch.len());
        let mut reached = true;
        for part in batch.chunks(MOST_LISTED) {
            if !reached {
                let not_sent = ServerError::NotSent { reason: "one before it was not answered".into() };
                told.extend(vec![Err(not_sent); part.len()]);
                continue;
            }
            let texts: Vec<String> = part.iter().map(|by| text(*by)).collect();
            match self.number.add_each(&texts, until).await {
                Ok(numbers) => told.extend(each(part, &numbers)),
                Err(error) => {
                    reached = !(error.is_not_sent() || error.is_unknown());
                    told.extend(vec![Err(error); part.len()]);
                }
            }
        }
        told
    }
}

impl<T: Numeral, const ONCE: bool> BatchExecutor for Adds<T, ONCE> {
    type Request = T;
    type Reply = Told<T>;

    // They are added in their order, unless the first has to be asked again, or is too much as one sum: then the second may come before it, or
    // between its parts, as if its callers had been quicker.
    const MAX_IN_FLIGHT: usize = if ONCE { 1 } else { 3 };

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a T>) -> usize {
        T::fit(asks)
    }

    async fn execute(&self, batch: Vec<T>, until: Instant) -> Vec<Told<T>> {
        if let Some(sums) = T::SUMS
            && let Some(told) = self.as_one(sums, &batch, until).await
        {
            return told;
        }
        // Only those that are too much are refused.
        self.one_by_one(&batch, until).await
    }
}

/// What each is told of the numbers that a script answered with: the first is the number before all of them.
fn each<T: Numeral>(part: &[T], numbers: &[String]) -> Vec<Told<T>> {
    let mut numbers = numbers.iter();
    let mut was = numbers.next().map_or("0", String::as_str);
    let tell = |_: &T| match numbers.next() {
        Some(now) if now.is_empty() => Err(overflow()),
        Some(now) => {
            let told = (parsed(std::mem::replace(&mut was, now)), parsed(now));
            Ok((told.0?, told.1?))
        }
        None => Err(ServerError::NotSent { reason: "the server stopped at one before it".into() }),
    };
    part.iter().map(tell).collect()
}

/// What a server says of a sum that is too much.
fn overflow() -> ServerError {
    ServerError::Refused { code: Code::Other, message: "ERR increment or decrement would overflow".into() }
}

/// The text of a summand, which was found to be a number before it came here.
fn text<T: Numeral>(by: T) -> String {
    by.written().unwrap_or_default()
}
