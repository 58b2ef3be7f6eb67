//! The reads and buffered writes of a transaction: the elements of each object. A bucket has one
//! element.

use std::collections::BTreeMap;

use bytes::Bytes;
use redgrid_core::Name;

use crate::error::TransactionError;

/// The maximum number of elements that a transaction reads or writes, and of its objects: 10,000.
///
/// The server compares and writes all of them in one step. During this step, which takes some tens
/// of milliseconds, it executes no other request.
pub const MAX_ELEMENTS: usize = 10_000;

/// The maximum number of bytes of all elements: 16 MiB. The client holds them in memory, and the
/// server receives them in one request.
pub const MAX_BYTES: usize = 16 << 20;

/// The type of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bucket,
    Map,
    Set,
}

impl Kind {
    /// Returns the server's name of the type.
    pub(crate) fn server_type(self) -> &'static str {
        match self {
            Kind::Bucket => "string",
            Kind::Map => "hash",
            Kind::Set => "set",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Bucket => "bucket",
            Kind::Map => "map",
            Kind::Set => "set",
        }
    }
}

/// The write of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// Writes a value. For a bucket, there are options of SET.
    Put(Bytes, Vec<Bytes>),
    Remove,
}

impl Write {
    pub(crate) fn value(&self) -> Option<&Bytes> {
        match self {
            Write::Put(value, _) => Some(value),
            Write::Remove => None,
        }
    }

    fn size(&self) -> usize {
        self.value().map_or(0, Bytes::len)
    }
}

/// An element of an object. `read` is its stored value when it was first read, if it was read;
/// `write` is its buffered write. An element of a set has an empty value.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) read: Option<Option<Bytes>>,
    pub(crate) write: Option<Write>,
}

impl Element {
    /// Returns the value within the transaction, if it is known.
    fn current(&self) -> Option<Option<Bytes>> {
        match &self.write {
            Some(write) => Some(write.value().cloned()),
            None => self.read.clone(),
        }
    }
}

/// An object of the transaction.
#[derive(Debug)]
pub(crate) struct ObjectState {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    pub(crate) elements: BTreeMap<Bytes, Element>,
    /// The stored number of elements when the object was first read.
    pub(crate) len: Option<u64>,
    /// Whether all elements were read. If so, an element that was not read did not exist.
    fully_read: bool,
    /// Whether all stored elements will be removed.
    pub(crate) cleared: bool,
}

/// The objects of a transaction, by key.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<Bytes, ObjectState>,
    elements: usize,
    bytes: usize,
}

impl State {
    /// Adds an object of this type, unless the transaction already has it.
    pub(crate) fn add_object(&mut self, name: &Name, key: &Bytes, kind: Kind) -> Result<(), TransactionError> {
        if self.objects.len() >= MAX_ELEMENTS && !self.objects.contains_key(key) {
            return Err(TransactionError::too_large("objects", MAX_ELEMENTS, self.objects.len() + 1));
        }
        let object = self.objects.entry(key.clone()).or_insert_with(|| ObjectState {
            name: name.clone(),
            kind,
            elements: BTreeMap::new(),
            len: None,
            fully_read: false,
            cleared: false,
        });
        if object.kind == kind {
            Ok(())
        } else {
            Err(TransactionError::WrongType {
                name: name.clone(),
                expected: kind.name(),
                found: format!("a {} of this transaction", object.kind.name()),
            })
        }
    }

    /// Returns the value of an element within the transaction; `None` if it must be read from the
    /// server.
    pub(crate) fn known(&self, key: &Bytes, element: &Bytes) -> Option<Option<Bytes>> {
        let object = self.objects.get(key)?;
        let found = object.elements.get(element);
        match found.filter(|found| found.write.is_some() || !object.cleared) {
            Some(found) => found.current(),
            None => (object.cleared || object.fully_read).then_some(None),
        }
    }

    /// Records the stored value of an element. If it was read several times, the value of the first
    /// read is kept.
    pub(crate) fn record_read(
        &mut self,
        key: &Bytes,
        element: Bytes,
        value: Option<Bytes>,
    ) -> Result<(), TransactionError> {
        let size = value.as_ref().map_or(0, Bytes::len);
        let freed = |existing: &Element| existing.read.as_ref().map_or(0, |_| size);
        let Some(found) = self.reserve(key, element, size, freed)? else { return Ok(()) };
        found.read.get_or_insert(value);
        Ok(())
    }

    /// Records the number of elements on the server.
    pub(crate) fn record_len(&mut self, key: &Bytes, len: u64) {
        if let Some(object) = self.objects.get_mut(key) {
            object.len.get_or_insert(len);
        }
    }

    /// Records all elements on the server.
    pub(crate) fn record_all(&mut self, key: &Bytes, all: Vec<(Bytes, Bytes)>) -> Result<(), TransactionError> {
        self.record_len(key, all.len() as u64);
        for (element, value) in all {
            self.record_read(key, element, Some(value))?;
        }
        if let Some(object) = self.objects.get_mut(key) {
            object.fully_read = true;
        }
        Ok(())
    }

    /// Buffers a write of an element.
    pub(crate) fn write(&mut self, key: &Bytes, element: Bytes, write: Write) -> Result<(), TransactionError> {
        let freed = |existing: &Element| existing.write.as_ref().map_or(0, Write::size);
        if let Some(found) = self.reserve(key, element, write.size(), freed)? {
            found.write = Some(write);
        }
        Ok(())
    }

    /// Buffers the removal of all elements.
    pub(crate) fn clear(&mut self, key: &Bytes) {
        let Some(object) = self.objects.get_mut(key) else { return };
        object.cleared = true;
        // Free the memory of elements that were only written.
        object.elements.retain(|name, element| {
            self.bytes -= element.write.take().as_ref().map_or(0, Write::size);
            let was_read = element.read.is_some();
            if !was_read {
                self.elements -= 1;
                self.bytes -= name.len();
            }
            was_read
        });
    }

    /// Returns all elements within the transaction; `None` if they must be read from the server.
    pub(crate) fn all(&self, key: &Bytes) -> Option<Vec<(Bytes, Bytes)>> {
        let object = self.objects.get(key).filter(|object| object.fully_read || object.cleared)?;
        let current = |(name, element): (&Bytes, &Element)| {
            let value =
                if object.cleared { element.write.as_ref()?.value().cloned() } else { element.current().flatten() };
            Some((name.clone(), value?))
        };
        Some(object.elements.iter().filter_map(current).collect())
    }

    /// Returns the number of elements within the transaction.
    ///
    /// If the number is unknown, returns the elements that must be read to compute it. In this
    /// case, the number of elements on the server must also be read.
    pub(crate) fn len(&self, key: &Bytes) -> Result<u64, Vec<Bytes>> {
        let object = self.objects.get(key).ok_or_else(Vec::new)?;
        if let Some(all) = self.all(key) {
            return Ok(all.len() as u64);
        }
        let written = || object.elements.iter().filter(|(_, element)| element.write.is_some());
        let unread: Vec<_> =
            written().filter(|(_, element)| element.read.is_none()).map(|(name, _)| name.clone()).collect();
        let Some(len) = object.len.filter(|_| unread.is_empty()) else { return Err(unread) };
        let will_exist = |element: &Element| element.write.as_ref().is_some_and(|write| write.value().is_some());
        let existed = |element: &Element| element.read.as_ref().is_some_and(Option::is_some);
        let added = written().filter(|(_, element)| will_exist(element) && !existed(element)).count() as u64;
        let removed = written().filter(|(_, element)| !will_exist(element) && existed(element)).count() as u64;
        Ok((len + added).saturating_sub(removed))
    }

    /// Returns a copy without the writes.
    pub(crate) fn reads_only(&self) -> State {
        let read_element = |(name, element): (&Bytes, &Element)| {
            let read = Some(element.read.clone()?);
            Some((name.clone(), Element { read, write: None }))
        };
        let read_object = |(key, object): (&Bytes, &ObjectState)| {
            let elements = object.elements.iter().filter_map(read_element).collect();
            let ObjectState { name, kind, len, fully_read, .. } = object;
            let copy = ObjectState {
                name: name.clone(),
                kind: *kind,
                elements,
                len: *len,
                fully_read: *fully_read,
                cleared: false,
            };
            (key.clone(), copy)
        };
        State { objects: self.objects.iter().map(read_object).collect(), ..*self }
    }

    /// Returns an existing or new element, if the limits allow `size` more bytes for it, after
    /// `freed` bytes are removed.
    fn reserve(
        &mut self,
        key: &Bytes,
        element: Bytes,
        size: usize,
        freed: impl Fn(&Element) -> usize,
    ) -> Result<Option<&mut Element>, TransactionError> {
        let Some(object) = self.objects.get_mut(key) else { return Ok(None) };
        let (new_elements, added, removed) = match object.elements.get(&element) {
            Some(existing) => (0, size, freed(existing)),
            None => (1, size + element.len(), 0),
        };
        let (elements, bytes) = (self.elements + new_elements, self.bytes + added - removed);
        if elements > MAX_ELEMENTS {
            return Err(TransactionError::too_large("elements", MAX_ELEMENTS, elements));
        }
        if bytes > MAX_BYTES {
            return Err(TransactionError::too_large("bytes", MAX_BYTES, bytes));
        }
        (self.elements, self.bytes) = (elements, bytes);
        Ok(Some(object.elements.entry(element).or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn map() -> (State, Bytes) {
        let (mut state, key) = (State::default(), bytes("m"));
        state.add_object(&Name::new("m").unwrap(), &key, Kind::Map).unwrap();
        (state, key)
    }

    fn put(value: &'static str) -> Write {
        Write::Put(bytes(value), Vec::new())
    }

    #[test]
    fn reads_return_buffered_writes_and_the_first_read_is_kept() {
        let (mut state, key) = map();
        assert_eq!(state.known(&key, &bytes("a")), None);
        state.record_read(&key, bytes("a"), Some(bytes("1"))).unwrap();
        state.record_read(&key, bytes("a"), Some(bytes("2"))).unwrap();
        assert_eq!(state.known(&key, &bytes("a")), Some(Some(bytes("1"))));
        state.write(&key, bytes("a"), Write::Remove).unwrap();
        state.write(&key, bytes("b"), put("3")).unwrap();
        assert_eq!(state.known(&key, &bytes("a")), Some(None));
        assert_eq!(state.known(&key, &bytes("b")), Some(Some(bytes("3"))));
        assert_eq!(state.objects[&key].elements[&bytes("a")].read, Some(Some(bytes("1"))));
    }

    #[test]
    fn the_length_combines_the_server_and_buffered_writes() {
        let (mut state, key) = map();
        assert_eq!(state.len(&key), Err(vec![]));
        for element in ["a", "b", "c"] {
            state.write(&key, bytes(element), put("1")).unwrap();
        }
        state.write(&key, bytes("d"), Write::Remove).unwrap();
        assert_eq!(state.len(&key).unwrap_err().len(), 4);
        state.record_len(&key, 7);
        for (element, value) in [("a", None), ("b", Some("1")), ("c", None), ("d", Some("1"))] {
            state.record_read(&key, bytes(element), value.map(bytes)).unwrap();
        }
        assert_eq!(state.len(&key), Ok(8));
        state.clear(&key);
        assert_eq!((state.len(&key), state.known(&key, &bytes("b"))), (Ok(0), Some(None)));
        state.write(&key, bytes("b"), put("2")).unwrap();
        assert_eq!(state.all(&key), Some(vec![(bytes("b"), bytes("2"))]));
    }

    #[test]
    fn a_fully_read_object_has_no_other_elements() {
        let (mut state, key) = map();
        state.write(&key, bytes("b"), Write::Remove).unwrap();
        state.record_all(&key, vec![(bytes("a"), bytes("1")), (bytes("b"), bytes("2"))]).unwrap();
        assert_eq!(state.known(&key, &bytes("x")), Some(None));
        assert_eq!((state.all(&key), state.len(&key)), (Some(vec![(bytes("a"), bytes("1"))]), Ok(1)));
    }

    #[test]
    fn the_size_of_a_transaction_is_limited() {
        let (mut state, key) = map();
        for n in 0..MAX_ELEMENTS {
            state.write(&key, n.to_string().into(), put("1")).unwrap();
        }
        state.write(&key, bytes("1"), put("2")).unwrap();
        let error = state.write(&key, bytes("x"), put("1")).unwrap_err();
        assert!(matches!(error, TransactionError::TooLarge { what: "elements", .. }), "{error:?}");
        let (mut state, key) = map();
        let error = state.write(&key, bytes("x"), Write::Put(vec![0; MAX_BYTES].into(), vec![])).unwrap_err();
        assert!(matches!(error, TransactionError::TooLarge { what: "bytes", .. }), "{error:?}");
        let error = state.add_object(&Name::new("m").unwrap(), &key, Kind::Set).unwrap_err();
        assert!(matches!(error, TransactionError::WrongType { .. }), "{error:?}");
        // The number of objects without elements is limited, too.
        for n in 1..MAX_ELEMENTS {
            let name = Name::new(n.to_string()).unwrap();
            state.add_object(&name, &n.to_string().into(), Kind::Map).unwrap();
        }
        state.add_object(&Name::new("m").unwrap(), &key, Kind::Map).unwrap();
        let error = state.add_object(&Name::new("x").unwrap(), &bytes("x"), Kind::Map).unwrap_err();
        assert!(matches!(error, TransactionError::TooLarge { what: "objects", .. }), "{error:?}");
    }

    #[test]
    fn replaced_and_cleared_writes_need_no_memory() {
        let (mut state, key) = map();
        let large = || Write::Put(vec![0; MAX_BYTES / 2].into(), vec![]);
        for _ in 0..5 {
            state.write(&key, bytes("a"), large()).unwrap();
            state.write(&key, bytes("b"), put("1")).unwrap();
        }
        state.clear(&key);
        assert_eq!((state.elements, state.bytes), (0, 0));
        state.record_read(&key, bytes("a"), Some(bytes("12"))).unwrap();
        state.record_read(&key, bytes("a"), Some(bytes("12345"))).unwrap();
        state.write(&key, bytes("a"), large()).unwrap();
        state.write(&key, bytes("a"), Write::Remove).unwrap();
        assert_eq!((state.elements, state.bytes), (1, 3));
        state.clear(&key);
        assert_eq!((state.elements, state.bytes), (1, 3));
    }
}
