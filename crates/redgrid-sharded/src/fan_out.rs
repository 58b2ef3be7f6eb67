//! Requests to many shards.

#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::object::ObjectError;

use crate::sharded::{Shard, Sharded, Shards};

/// The maximum number of requests in flight.
const MAX_IN_FLIGHT: usize = 64;

#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
impl<P: Shard> Shards<P> {
    /// Groups items by the shards of their encoded keys.
    pub(crate) fn group<A>(
        &self,
        items: impl IntoIterator<Item = A>,
        key: impl Fn(&A) -> Result<Bytes, ObjectError>,
    ) -> Result<ByShard<A>, ObjectError> {
        let shard = |item: A| Ok((self.layout.shard_of(&key(&item)?), item));
        Ok(group_by_shard(items.into_iter().map(shard).collect::<Result<Vec<_>, ObjectError>>()?))
    }
}

impl<P: Shard> Sharded<P> {
    /// Runs a call on some shards, several at a time, and waits for all. Returns the result of
    /// each, in the order of the shards.
    ///
    /// After the call's time limit, no further calls are started.
    pub(crate) async fn fan_out_collect<A, T, F>(
        &self,
        shards: &Shards<P>,
        targets: impl IntoIterator<Item = (u32, A)>,
        call: impl Fn(P, A) -> F,
    ) -> Vec<(u32, Result<T, ObjectError>)>
    where
        F: Future<Output = Result<T, ObjectError>>,
    {
        let (client, name) = (self.object_ref.client(), self.object_ref.name());
        let until = client.clock().now() + client.patience();
        let calls: Vec<_> = targets
            .into_iter()
            .map(|(number, argument)| {
                let running = call(shards.all[number as usize].clone(), argument);
                async move {
                    match name {
                        Some(name) if client.clock().now() >= until => {
                            let reason = "the call's time limit ended before it reached this shard".into();
                            (number, Err(ObjectError::of(name, ServerError::NotSent { reason })))
                        }
                        _ => (number, running.await),
                    }
                }
            })
            .collect();
        let mut results: Vec<_> = stream::iter(calls).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        results.sort_by_key(|(number, _)| *number);
        results
    }

    /// Runs a call on some shards, as [`Self::fan_out_collect`]. Fails if the call failed on one of
    /// them.
    pub(crate) async fn fan_out<A, T, F>(
        &self,
        shards: &Shards<P>,
        targets: impl IntoIterator<Item = (u32, A)>,
        call: impl Fn(P, A) -> F,
    ) -> Result<Vec<(u32, T)>, ObjectError>
    where
        F: Future<Output = Result<T, ObjectError>>,
    {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (number, result) in self.fan_out_collect(shards, targets, call).await {
            match result {
                Ok(value) => done.push((number, value)),
                Err(error) => failed.push((number, error)),
            }
        }
        match ObjectError::of_shards(self.object_ref.name_and_key()?.0, failed) {
            Some(failed) => Err(failed),
            None => Ok(done),
        }
    }

    /// Runs a call on some shards, as [`Self::fan_out`]. Returns the sum of the results.
    pub(crate) async fn fan_out_sum<A, F>(
        &self,
        shards: &Shards<P>,
        targets: impl IntoIterator<Item = (u32, A)>,
        call: impl Fn(P, A) -> F,
    ) -> Result<u64, ObjectError>
    where
        F: Future<Output = Result<u64, ObjectError>>,
    {
        Ok(self
            .fan_out(shards, targets, call)
            .await?
            .into_iter()
            .fold(0, |sum, (_, result)| result.saturating_add(sum)))
    }

    /// Returns whether a call returns true for any shard. One such shard suffices, even if the call
    /// failed on others.
    pub(crate) async fn any<F>(&self, call: impl Fn(P) -> F) -> Result<bool, ObjectError>
    where
        F: Future<Output = Result<bool, ObjectError>>,
    {
        let shards = self.shards_to_read().await?;
        let mut failed = Vec::new();
        let mut found = false;
        for (number, result) in self.fan_out_collect(&shards, shards.every_shard(), |shard, ()| call(shard)).await {
            match result {
                Ok(is_true) => found |= is_true,
                Err(error) => failed.push((number, error)),
            }
        }
        match ObjectError::of_shards(self.object_ref.name_and_key()?.0, failed).filter(|_| !found) {
            Some(failed) => Err(failed),
            None => Ok(found),
        }
    }
}

#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
impl<P: Shard> Sharded<P> {
    /// Calls all shards. Returns the sum of their results.
    pub(crate) async fn sum<F>(&self, call: impl Fn(P) -> F) -> Result<u64, ObjectError>
    where
        F: Future<Output = Result<u64, ObjectError>>,
    {
        let shards = self.shards_to_read().await?;
        self.fan_out_sum(&shards, shards.every_shard(), |shard, ()| call(shard)).await
    }

    /// Calls all shards of the stored layout. Returns whether any call returned true.
    pub(crate) async fn change_all<F>(&self, call: impl Fn(P) -> F) -> Result<bool, ObjectError>
    where
        F: Future<Output = Result<bool, ObjectError>>,
    {
        let (shards, _) = self.verified_shards().await?;
        let results = self.fan_out(&shards, shards.every_shard(), |shard, ()| call(shard)).await?;
        Ok(results.into_iter().any(|(_, is_true)| is_true))
    }

    /// Calls shards, each with its items. Returns a result for each item, in the order of the
    /// items.
    pub(crate) async fn each<A, T, F>(
        &self,
        shards: &Shards<P>,
        groups: ByShard<A>,
        call: impl Fn(P, Vec<A>) -> F,
    ) -> Result<Vec<T>, ObjectError>
    where
        F: Future<Output = Result<Vec<T>, ObjectError>>,
    {
        let call = |shard, (positions, items)| {
            let results = call(shard, items);
            async move { Ok((positions, results.await?)) }
        };
        Ok(in_request_order(self.fan_out(shards, groups, call).await?))
    }
}

#[cfg(any(feature = "map", feature = "set"))]
impl<P: Shard> Sharded<P> {
    /// Calls all shards. Returns the items of all results.
    pub(crate) async fn all<R: IntoIterator, F, B>(&self, call: impl Fn(P) -> F) -> Result<B, ObjectError>
    where
        F: Future<Output = Result<R, ObjectError>>,
        B: FromIterator<R::Item>,
    {
        let shards = self.shards_to_read().await?;
        let results = self.fan_out(&shards, shards.every_shard(), |shard, ()| call(shard)).await?;
        Ok(results.into_iter().flat_map(|(_, items)| items).collect())
    }

    /// Returns `count` random items. Larger shards are chosen more often.
    pub(crate) async fn random<T, L, F>(
        &self,
        count: u32,
        len: impl Fn(P) -> L,
        call: impl Fn(P, u32) -> F,
    ) -> Result<Vec<T>, ObjectError>
    where
        L: Future<Output = Result<u64, ObjectError>>,
        F: Future<Output = Result<Vec<T>, ObjectError>>,
    {
        let shards = self.shards_to_read().await?;
        let sizes = self.fan_out(&shards, shards.every_shard(), |shard, ()| len(shard)).await?;
        let results = self.fan_out(&shards, allocate_randomly(sizes, count), call).await?;
        Ok(results.into_iter().flat_map(|(_, items)| items).collect())
    }
}

/// Arguments or results for many items, grouped by shard. Each group has the items, and their
/// positions in the request.
pub(crate) type ByShard<A> = Vec<(u32, (Vec<usize>, Vec<A>))>;

/// Groups items by shard.
pub(crate) fn group_by_shard<A>(items: impl IntoIterator<Item = (u32, A)>) -> ByShard<A> {
    let mut groups = std::collections::BTreeMap::<u32, (Vec<usize>, Vec<A>)>::new();
    for (position, (shard, item)) in items.into_iter().enumerate() {
        let (positions, items) = groups.entry(shard).or_insert_with(|| (Vec::new(), Vec::new()));
        positions.push(position);
        items.push(item);
    }
    groups.into_iter().collect()
}

/// Returns results in the order of the request.
pub(crate) fn in_request_order<T>(groups: ByShard<T>) -> Vec<T> {
    let mut results: Vec<(usize, T)> =
        groups.into_iter().flat_map(|(_, (positions, results))| positions.into_iter().zip(results)).collect();
    results.sort_by_key(|(position, _)| *position);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Chooses `count` random entries from shards of these sizes; all entries have the same
/// probability. Returns the number of entries to take from each shard, which does not exceed its
/// size.
#[cfg(any(feature = "map", feature = "set"))]
pub(crate) fn allocate_randomly(mut sizes: Vec<(u32, u64)>, count: u32) -> Vec<(u32, u32)> {
    let mut total: u64 = sizes.iter().map(|(_, size)| size).sum();
    let mut taken = vec![0; sizes.len()];
    for _ in 0..u64::from(count).min(total) {
        let mut position = fastrand::u64(..total);
        for (taken, (_, remaining)) in taken.iter_mut().zip(&mut sizes) {
            if position < *remaining {
                *taken += 1;
                *remaining -= 1;
                break;
            }
            position -= *remaining;
        }
        total -= 1;
    }
    sizes.into_iter().zip(taken).filter(|(_, taken)| *taken > 0).map(|((shard, _), taken)| (shard, taken)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_request() {
        let groups = group_by_shard([(3, 'a'), (1, 'b'), (3, 'c'), (0, 'd')]);
        assert_eq!(
            groups.iter().map(|(shard, (_, all))| (*shard, all.len())).collect::<Vec<_>>(),
            [(0, 1), (1, 1), (3, 2)]
        );
        assert_eq!(in_request_order(groups), ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn entries_are_chosen_with_equal_probability() {
        assert_eq!(allocate_randomly(vec![(0, 2), (1, 0), (2, 3)], 9), [(0, 2), (2, 3)]);
        assert_eq!(allocate_randomly(vec![(0, 0)], 1), []);
        let from_large = (0..4000).filter(|_| allocate_randomly(vec![(0, 1), (1, 9)], 1) == [(1, 1)]).count();
        assert!((3450..3750).contains(&from_large), "{from_large}");
    }
}
