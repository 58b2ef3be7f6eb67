//! Values that the objects of one client share: one value for each type and key.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::sync::Mutex;

type Known = HashMap<(TypeId, Bytes), Weak<dyn Any + Send + Sync>>;
type Values = HashMap<(TypeId, Bytes), Arc<dyn Any + Send + Sync>>;

/// Shares one value for each type and key. A value lives as long as an object references it.
#[derive(Default)]
pub struct Shared(Mutex<Known>);

/// Keeps one value for each type and key, from its first use until the client ends.
///
/// `Kept` has a mutex of its own, because [`Shared`] is locked while it creates a value, and the
/// creation can need kept values.
#[derive(Default)]
pub struct Kept(Mutex<Values>);

impl Kept {
    /// Returns the value for a key; `make` creates it if there is none.
    pub fn get<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        let of = (TypeId::of::<T>(), key.clone());
        let mut values = self.0.lock();
        if let Some(value) = values.get(&of).and_then(|value| Arc::clone(value).downcast().ok()) {
            return value;
        }
        let value = Arc::new(make());
        values.insert(of, Arc::clone(&value) as Arc<dyn Any + Send + Sync>);
        value
    }
}

impl Shared {
    /// Returns the value for a key; `make` creates it if there is none.
    pub fn get<T: Send + Sync + 'static>(&self, key: &Bytes, make: impl FnOnce() -> T) -> Arc<T> {
        let of = (TypeId::of::<T>(), key.clone());
        let mut known = self.0.lock();
        if let Some(value) = known.get(&of).and_then(Weak::upgrade).and_then(|value| value.downcast().ok()) {
            return value;
        }
        // When the map is full, the entries of dropped values are removed. If more than half of the
        // entries are left, the map grows. So the next removal comes only after many more
        // insertions.
        if known.len() == known.capacity() {
            known.retain(|_, value| value.strong_count() > 0);
            let len = known.len();
            known.reserve(len + 1);
        }
        let value = Arc::new(make());
        known.insert(of, Arc::downgrade(&value) as Weak<dyn Any + Send + Sync>);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_per_type_and_key_is_shared_while_it_is_in_use() {
        let (shared, key) = (Shared::default(), Bytes::from_static(b"a"));
        let one = shared.get(&key, || 1_u32);
        assert_eq!(*shared.get(&key, || 2_u32), 1);
        assert_eq!((*shared.get(&Bytes::from_static(b"b"), || 2_u32), *shared.get(&key, || 3_u64)), (2, 3));
        drop(one);
        assert_eq!(*shared.get(&key, || 4_u32), 4);
    }

    #[test]
    fn a_kept_value_stays_although_it_is_not_in_use() {
        let (kept, key) = (Kept::default(), Bytes::from_static(b"a"));
        assert_eq!(*kept.get(&key, || 1_u32), 1);
        assert_eq!((*kept.get(&key, || 2_u32), *kept.get(&key, || 3_u64)), (1, 3));
        assert_eq!(*kept.get(&Bytes::from_static(b"b"), || 4_u32), 4);
    }

    #[test]
    fn an_unused_value_is_forgotten() {
        let shared = Shared::default();
        for n in 0..10_000_u32 {
            shared.get(&n.to_string().into(), || n);
        }
        assert!(shared.0.lock().len() < 100);
    }

    #[test]
    fn a_full_map_is_not_searched_for_each_new_value() {
        let shared = Shared::default();
        let get = |n: usize| shared.get(&n.to_string().into(), || n);
        let mut values: Vec<_> = (0..100).map(get).collect();
        let full = shared.0.lock().capacity();
        values.extend((100..full).map(get));
        values.pop();
        drop(get(usize::MAX));
        assert!(shared.0.lock().capacity() > full, "one unused entry was removed, and the map is full again");
    }
}
