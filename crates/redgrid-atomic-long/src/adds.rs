//! What several tasks add at the same time leaves as one sum.

use redgrid_core::clock::Instant;
use redgrid_core::{Combine, ServerError};

use crate::number::{Added, Number, Terms};

/// How many additions leave together at most.
const MOST: usize = 10_000;

/// Adds for all handles of a client with one name, and one way of sending.
pub(crate) struct Adds<const ONCE: bool>(pub(crate) Number);

impl<const ONCE: bool> Adds<ONCE> {
    /// What the number is after `by` was added.
    async fn add(&self, by: i64, until: Instant) -> Result<i64, ServerError> {
        if !ONCE {
            return self.0.command("INCRBY", by.to_string(), until).await;
        }
        match self.0.add(by.to_string(), &Terms::default(), until).await? {
            Added::To(number) | Added::OutOfBounds(number) => {
                number.parse().map_err(|_| ServerError::Decode { expected: "a whole number", got: number })
            }
        }
    }
}

impl<const ONCE: bool> Combine for Adds<ONCE> {
    type Ask = i64;
    /// The number after this one was added.
    type Answer = Result<i64, ServerError>;

    /// Opposite signs do not share a batch: on the way to its sum, each is a number that there was.
    fn fit<'a>(&self, asks: impl Iterator<Item = &'a i64>) -> usize {
        let (mut sum, mut falls) = (0_i64, None);
        let joins = |by: &&i64| {
            let added = sum.checked_add(**by).filter(|_| *falls.get_or_insert(**by < 0) == (**by < 0));
            sum = added.unwrap_or(sum);
            added.is_some()
        };
        asks.take(MOST).take_while(joins).count()
    }

    async fn carry_out(&self, batch: Vec<i64>, until: Instant) -> Vec<Result<i64, ServerError>> {
        match self.add(batch.iter().sum(), until).await {
            Ok(sum) => {
                let mut value = sum - batch.iter().sum::<i64>();
                let share = |by: i64| {
                    value += by;
                    Ok(value)
                };
                batch.into_iter().map(share).collect()
            }
            // Only those that are too much are refused.
            Err(error) if error.is_overflow() && batch.len() > 1 => {
                let mut answers = Vec::new();
                let mut reached = true;
                for by in batch {
                    let told = match reached {
                        true => self.add(by, until).await,
                        false => Err(ServerError::NotSent { reason: "one before it was not answered".into() }),
                    };
                    reached &= !matches!(told, Err(ServerError::NotSent { .. } | ServerError::Unknown { .. }));
                    answers.push(told);
                }
                answers
            }
            Err(error) => vec![Err(error); batch.len()],
        }
    }
}
