//! Batches concurrent additions of several tasks into one request.

use std::sync::Arc;

use redgrid_core::author::{BatchExecutor, Batcher, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::{Client, Code, ServerError};

use crate::atomic_number::{AtomicNumber, BatchSum, MAX_LISTED, Step};
use crate::number::{Number, parse_number};

/// The result of one addition.
pub(crate) type AddResult<T> = Result<Step<T>, ServerError>;

/// The batcher for one of the two delivery guarantees. All handles of a client with one name share
/// it.
#[derive(Clone)]
pub(crate) enum AddBatcher<T: AtomicNumber> {
    AtMostOnce(Arc<Batcher<AddExecutor<T, false>>>),
    ExactlyOnce(Arc<Batcher<AddExecutor<T, true>>>),
}

impl<T: AtomicNumber> AddBatcher<T> {
    pub(crate) fn of(number: &Number) -> Self {
        let (client, key) = (&number.client, &number.key);
        if number.exactly_once {
            AddBatcher::ExactlyOnce(client.shared(key, || Batcher::new(AddExecutor::new(number))))
        } else {
            AddBatcher::AtMostOnce(client.shared(key, || Batcher::new(AddExecutor::new(number))))
        }
    }

    pub(crate) async fn add(&self, client: &Client, by: T) -> AddResult<T> {
        match self {
            AddBatcher::AtMostOnce(batcher) => batcher.submit(client, by).await?,
            AddBatcher::ExactlyOnce(batcher) => batcher.submit(client, by).await?,
        }
    }
}

/// Executes batches of additions for all handles.
pub(crate) struct AddExecutor<T, const EXACTLY_ONCE: bool> {
    number: Number,
    summand_type: std::marker::PhantomData<T>,
}

impl<T: AtomicNumber, const EXACTLY_ONCE: bool> AddExecutor<T, EXACTLY_ONCE> {
    fn new(number: &Number) -> Self {
        AddExecutor { number: number.clone(), summand_type: std::marker::PhantomData }
    }

    /// Adds a batch as one summand. Returns `None` if the sum of several summands overflows.
    async fn add_sum(&self, batch_sum: BatchSum<T>, batch: &[T], until: Instant) -> Option<Vec<AddResult<T>>> {
        let sum = summand_text((batch_sum.sum)(batch));
        let after = if EXACTLY_ONCE {
            self.number.add_each(&[sum], until).await.map(|mut numbers| numbers.pop().unwrap_or_default())
        } else {
            self.number.command("INCRBY", sum, until).await
        };
        let after = after.and_then(|after| if after.is_empty() { Err(overflow_error()) } else { Ok(after) });
        match after {
            Ok(after) => Some(match parse_number(&after) {
                Ok(after) => (batch_sum.split)(after, batch).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error); batch.len()],
            }),
            Err(error) if error.is_overflow() && batch.len() > 1 => None,
            Err(error) => Some(vec![Err(error); batch.len()]),
        }
    }

    /// Adds the summands of a batch in order, each with its own result.
    ///
    /// After a script without a reply, the remaining summands are not sent.
    async fn add_each(&self, batch: &[T], until: Instant) -> Vec<AddResult<T>> {
        let mut results = Vec::with_capacity(batch.len());
        let mut answered = true;
        for chunk in batch.chunks(MAX_LISTED) {
            if !answered {
                let not_sent = ServerError::NotSent { reason: "an earlier batch was not answered".into() };
                results.extend(vec![Err(not_sent); chunk.len()]);
                continue;
            }
            let texts: Vec<String> = chunk.iter().map(|by| summand_text(*by)).collect();
            match self.number.add_each(&texts, until).await {
                Ok(numbers) => results.extend(chunk_results(chunk, &numbers)),
                Err(error) => {
                    answered = !(error.is_not_sent() || error.is_unknown());
                    results.extend(vec![Err(error); chunk.len()]);
                }
            }
        }
        results
    }
}

impl<T: AtomicNumber, const EXACTLY_ONCE: bool> BatchExecutor for AddExecutor<T, EXACTLY_ONCE> {
    type Request = T;
    type Reply = AddResult<T>;

    // Batches are added in order, with two exceptions: a batch is retried, or its sum overflows.
    // Then the next batch may be added before it or between its summands, as if the callers of the
    // next batch had been faster.
    const MAX_IN_FLIGHT: usize = if EXACTLY_ONCE { 1 } else { 3 };

    fn max_prefix<'a>(&self, summands: impl Iterator<Item = &'a T>) -> usize {
        T::max_prefix(summands)
    }

    async fn execute(&self, batch: Vec<T>, until: Instant) -> Vec<AddResult<T>> {
        if let Some(batch_sum) = T::BATCH_SUM
            && let Some(results) = self.add_sum(batch_sum, &batch, until).await
        {
            return results;
        }
        // Only the summands that overflow are refused.
        self.add_each(&batch, until).await
    }
}

/// Returns the result of each summand of a chunk, given the numbers that the script returned. The
/// first of them is the number before the chunk.
fn chunk_results<T: AtomicNumber>(chunk: &[T], numbers: &[String]) -> Vec<AddResult<T>> {
    let mut numbers = numbers.iter();
    let mut before = numbers.next().map_or("0", String::as_str);
    let result = |_: &T| match numbers.next() {
        Some(after) if after.is_empty() => Err(overflow_error()),
        Some(after) => {
            let step = (parse_number(std::mem::replace(&mut before, after)), parse_number(after));
            Ok((step.0?, step.1?))
        }
        None => Err(ServerError::NotSent { reason: "the server stopped at an earlier summand".into() }),
    };
    chunk.iter().map(result).collect()
}

/// Returns the error that a server reports for an overflow.
fn overflow_error() -> ServerError {
    ServerError::Refused { code: Code::Other, message: "ERR increment or decrement would overflow".into() }
}

/// Returns the text of a summand, which was checked before.
fn summand_text<T: AtomicNumber>(by: T) -> String {
    by.to_text().unwrap_or_default()
}
