//! What all sharded objects have inside: the parts, which of them is asked, and what many of them answer together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use redgrid_core::clock::Instant;
use redgrid_core::object::layouts::sharded;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{Client, Name, Pairs, Request, ServerError};

use crate::layout::{Kind, Layout, Wish};
use crate::tags::{LONGEST, tag};

/// The longest name, as those of parts are longer by a colon and a tag in braces.
const LONGEST_NAME: usize = 1024 - LONGEST - 3;

/// How long a client goes by what it knows of a division before it looks again: who deletes an object and makes it anew in another division
/// is noticed within this time.
const TRUSTED: Duration = Duration::from_secs(10);

/// How many parts are asked at a time.
const AT_ONCE: usize = 64;

/// A plain object that is a part of a sharded one.
pub(crate) trait Part: Clone {
    /// What a part is made with, besides its name.
    type With: Clone;

    fn kind(with: &Self::With) -> Kind;

    fn new(client: &Client, name: String, with: &Self::With) -> Self;
}

/// What a client knows of a division, and until when it goes by it.
type Known = Mutex<Option<(Layout, Instant)>>;

/// The parts of an object, as it is divided.
pub(crate) struct Parts<P> {
    pub(crate) layout: Layout,
    pub(crate) all: Vec<P>,
}

impl<P: Part> Parts<P> {
    /// The part of what has these bytes.
    pub(crate) fn of(&self, bytes: &[u8]) -> P {
        self.all[self.layout.part_of(bytes) as usize].clone()
    }

    /// All of them by their numbers.
    pub(crate) fn every(&self) -> impl Iterator<Item = (u32, ())> + use<P> {
        (0..self.layout.shards).map(|part| (part, ()))
    }
}

/// Where a sharded object is, and what is known of how it is divided.
pub(crate) struct Spread<P: Part> {
    pub(crate) place: Place,
    pub(crate) with: P::With,
    pub(crate) wish: Wish,
    known: Arc<Known>,
    parts: Arc<Mutex<Option<Arc<Parts<P>>>>>,
}

impl<P: Part> Spread<P> {
    pub(crate) fn new(client: &Client, name: impl AsRef<str>, with: P::With) -> Self {
        let place = Place::new(client, name);
        // One for all handles of the client.
        let known = place.named().map(|(_, key)| client.shared(&sharded(key)[0], Known::default)).unwrap_or_default();
        Spread { place, with, wish: Wish::default(), known, parts: Arc::default() }
    }

    /// The same object, by parts of another type.
    pub(crate) fn by<O: Part>(&self, with: O::With) -> Spread<O> {
        Spread {
            place: self.place.clone(),
            with,
            wish: self.wish,
            known: Arc::clone(&self.known),
            parts: Arc::default(),
        }
    }

    /// Where it is kept how the object is divided.
    fn config(&self) -> Result<Bytes, ObjectError> {
        let (name, key) = self.place.named()?;
        if name.as_str().contains('{') {
            let expected = "one without a hash tag, as the parts have tags of their own";
            return Err(self.place.invalid("name", expected, name));
        }
        let length = name.as_str().len();
        if length > LONGEST_NAME {
            let expected = format_args!("up to {LONGEST_NAME} bytes, as those of the parts are longer");
            return Err(self.place.invalid("name", expected, format_args!("{length} bytes")));
        }
        Ok(sharded(key).remove(0))
    }

    pub(crate) fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn note(&self, layout: Layout) {
        let until = self.place.client().clock().now() + TRUSTED;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((layout, until));
    }

    /// The parts for what only reads: where nobody has said how the object is divided, as this handle would have it.
    pub(crate) async fn to_read(&self) -> Result<Arc<Parts<P>>, ObjectError> {
        Ok(self.parts(self.layout(false).await?))
    }

    /// The parts for what changes: it is said how the object is divided, if nobody has.
    pub(crate) async fn to_change(&self) -> Result<Arc<Parts<P>>, ObjectError> {
        Ok(self.parts(self.layout(true).await?))
    }

    async fn layout(&self, say: bool) -> Result<Layout, ObjectError> {
        let (config, kind) = (self.config()?, P::kind(&self.with));
        let known = *self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Of another type with this name, which the server will tell.
        let known = known.filter(|(known, _)| known.kind == kind);
        if let Some((known, _)) = known.filter(|(_, until)| self.place.client().clock().now() < *until) {
            return known.fits(&self.place, self.wish);
        }
        let known = known.map(|(known, _)| known);
        let wished = Layout::wished(&self.place, kind, self.wish, known)?;
        let told: Result<Pairs<Bytes, Bytes>, ObjectError> = match say {
            true => self.place.ask(wished.agreeing(&config)).await.map(|(_, said): (bool, _)| said),
            false => self.place.ask(Request::command("HGETALL").key(config)).await,
        };
        match (told, known) {
            (Ok(fields), _) => match Layout::stored(&self.place, kind, fields)? {
                Some(layout) => {
                    self.note(layout);
                    layout.fits(&self.place, self.wish)
                }
                None => Ok(wished),
            },
            // The parts at other nodes can be asked all the same.
            (Err(ObjectError::Unavailable { .. }), Some(known)) => {
                self.note(known);
                known.fits(&self.place, self.wish)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// What is agreed on, by the server itself; `None` where nothing is.
    pub(crate) async fn agreed(&self) -> Result<Option<Arc<Parts<P>>>, ObjectError> {
        let request = Request::command("HGETALL").key(self.config()?);
        match Layout::stored(&self.place, P::kind(&self.with), self.place.ask(request).await?)? {
            Some(layout) => {
                self.note(layout);
                Ok(Some(self.parts(layout.fits(&self.place, self.wish)?)))
            }
            None => {
                self.forget();
                Ok(None)
            }
        }
    }

    /// The parts for what ends all of them, and whether that is agreed on, which the server itself is asked: they are taken neither for those of a
    /// former division nor for all where there are more.
    pub(crate) async fn to_end(&self) -> Result<(Arc<Parts<P>>, bool), ObjectError> {
        match self.agreed().await? {
            Some(parts) => Ok((parts, true)),
            None => {
                let (kind, wish) = (P::kind(&self.with), self.wish);
                Ok((self.parts(Layout::wished(&self.place, kind, wish, None)?), false))
            }
        }
    }

    /// Has it forgotten how the object is divided, if it is still divided so.
    pub(crate) async fn disagree(&self, layout: &Layout) -> Result<(), ObjectError> {
        let request = layout.forgetting(&self.config()?);
        let _: bool = self.place.change(request).await?;
        self.forget();
        Ok(())
    }

    /// Says how it is divided, if nobody has; tells whether it did.
    #[cfg(feature = "bits")]
    pub(crate) async fn agree(&self, wish: Wish) -> Result<(bool, Arc<Parts<P>>), ObjectError> {
        let (config, kind, wished) = (self.config()?, P::kind(&self.with), self.wished(wish)?);
        let (said, fields) = self.place.change(wished.agreeing(&config)).await?;
        let layout = Layout::stored(&self.place, kind, fields)?.unwrap_or(wished);
        self.note(layout);
        Ok((said, self.parts(layout.fits(&self.place, self.wish)?)))
    }

    /// A division by a wish, if it can be.
    #[cfg(feature = "bits")]
    pub(crate) fn wished(&self, wish: Wish) -> Result<Layout, ObjectError> {
        self.config()?;
        Layout::wished(&self.place, P::kind(&self.with), wish, None)
    }

    /// The parts by a division, which asks nobody.
    pub(crate) fn parts(&self, layout: Layout) -> Arc<Parts<P>> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parts) = parts.as_ref().filter(|parts| parts.layout == layout) {
            return Arc::clone(parts);
        }
        let name = self.place.name().map_or("", Name::as_str);
        let part = |part| P::new(self.place.client(), format!("{name}:{{{}}}", tag(part, layout.shards)), &self.with);
        let all = Arc::new(Parts { layout, all: (0..layout.shards).map(part).collect() });
        *parts = Some(Arc::clone(&all));
        all
    }

    /// Asks some parts, several at a time, and waits for all; tells what each has answered, in the order of their numbers.
    ///
    /// Those that have not been asked when a call may take no longer are not asked any more.
    pub(crate) async fn settled<A, T, F>(
        &self,
        parts: &Parts<P>,
        of: impl IntoIterator<Item = (u32, A)>,
        ask: impl Fn(P, A) -> F,
    ) -> Vec<(u32, Result<T, ObjectError>)>
    where
        F: Future<Output = Result<T, ObjectError>>,
    {
        let (client, name) = (self.place.client(), self.place.name());
        let until = client.clock().now() + client.patience();
        let asked: Vec<_> = of
            .into_iter()
            .map(|(number, about)| {
                let asking = ask(parts.all[number as usize].clone(), about);
                async move {
                    match name {
                        Some(name) if client.clock().now() >= until => {
                            let reason = "the call's time was over before it came to this shard".into();
                            (number, Err(ObjectError::of(name, ServerError::NotSent { reason })))
                        }
                        _ => (number, asking.await),
                    }
                }
            })
            .collect();
        let mut told: Vec<_> = stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
        told.sort_by_key(|(number, _)| *number);
        told
    }

    /// The same, and all must have done it.
    pub(crate) async fn each<A, T, F>(
        &self,
        parts: &Parts<P>,
        of: impl IntoIterator<Item = (u32, A)>,
        ask: impl Fn(P, A) -> F,
    ) -> Result<Vec<(u32, T)>, ObjectError>
    where
        F: Future<Output = Result<T, ObjectError>>,
    {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (number, told) in self.settled(parts, of, ask).await {
            match told {
                Ok(told) => done.push((number, told)),
                Err(error) => failed.push((number, error)),
            }
        }
        match ObjectError::of_shards(self.place.named()?.0, failed) {
            Some(failed) => Err(failed),
            None => Ok(done),
        }
    }

    /// The same of numbers that are added up.
    pub(crate) async fn sum<A, F>(
        &self,
        parts: &Parts<P>,
        of: impl IntoIterator<Item = (u32, A)>,
        ask: impl Fn(P, A) -> F,
    ) -> Result<u64, ObjectError>
    where
        F: Future<Output = Result<u64, ObjectError>>,
    {
        Ok(self.each(parts, of, ask).await?.into_iter().fold(0, |sum, (_, told)| told.saturating_add(sum)))
    }

    /// Whether it is so of any part: one that says so is enough, whatever became of others.
    pub(crate) async fn any<F>(&self, parts: &Parts<P>, ask: impl Fn(P, ()) -> F) -> Result<bool, ObjectError>
    where
        F: Future<Output = Result<bool, ObjectError>>,
    {
        let mut failed = Vec::new();
        let mut found = false;
        for (number, told) in self.settled(parts, parts.every(), ask).await {
            match told {
                Ok(told) => found |= told,
                Err(error) => failed.push((number, error)),
            }
        }
        match ObjectError::of_shards(self.place.named()?.0, failed).filter(|_| !found) {
            Some(failed) => Err(failed),
            None => Ok(found),
        }
    }
}

impl<P: Part> Clone for Spread<P> {
    fn clone(&self) -> Self {
        let Spread { place, with, wish, known, parts } = self;
        let (known, parts) = (Arc::clone(known), Arc::clone(parts));
        Spread { place: place.clone(), with: with.clone(), wish: *wish, known, parts }
    }
}

/// What many are asked or have answered, by parts; each with its place among all.
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
pub(crate) type ByPart<A> = Vec<(u32, Vec<(usize, A)>)>;

/// What is asked about, by the parts that have it.
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
pub(crate) fn by_part<A>(all: impl IntoIterator<Item = (u32, A)>) -> ByPart<A> {
    let mut by_part = std::collections::BTreeMap::<u32, Vec<(usize, A)>>::new();
    for (at, (part, about)) in all.into_iter().enumerate() {
        by_part.entry(part).or_default().push((at, about));
    }
    by_part.into_iter().collect()
}

/// Answers in the order in which was asked.
#[cfg(any(feature = "bits", feature = "map", feature = "set"))]
pub(crate) fn in_order<T>(told: ByPart<T>) -> Vec<T> {
    let mut all: Vec<(usize, T)> = told.into_iter().flat_map(|(_, told)| told).collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, told)| told).collect()
}

/// From which parts to take `count` by chance, each of all with the same likelihood, where parts have so many; no more than there are.
#[cfg(any(feature = "map", feature = "set"))]
pub(crate) fn by_chance(mut has: Vec<(u32, u64)>, count: u32) -> Vec<(u32, u32)> {
    let mut all: u64 = has.iter().map(|(_, has)| has).sum();
    let mut taken = vec![0; has.len()];
    for _ in 0..u64::from(count).min(all) {
        let mut at = fastrand::u64(..all);
        for (taken, (_, left)) in taken.iter_mut().zip(&mut has) {
            if at < *left {
                *taken += 1;
                *left -= 1;
                break;
            }
            at -= *left;
        }
        all -= 1;
    }
    has.into_iter().zip(taken).filter(|(_, taken)| *taken > 0).map(|((part, _), taken)| (part, taken)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_the_order_of_questions() {
        let asked = by_part([(3, 'a'), (1, 'b'), (3, 'c'), (0, 'd')]);
        assert_eq!(asked.iter().map(|(part, all)| (*part, all.len())).collect::<Vec<_>>(), [(0, 1), (1, 1), (3, 2)]);
        assert_eq!(in_order(asked), ['a', 'b', 'c', 'd']);
    }

    #[test]
    fn what_is_taken_by_chance_is_of_all_alike() {
        assert_eq!(by_chance(vec![(0, 2), (1, 0), (2, 3)], 9), [(0, 2), (2, 3)]);
        assert_eq!(by_chance(vec![(0, 0)], 1), []);
        let of_large = (0..4000).filter(|_| by_chance(vec![(0, 1), (1, 9)], 1) == [(1, 1)]).count();
        assert!((3450..3750).contains(&of_large), "{of_large}");
    }
}
