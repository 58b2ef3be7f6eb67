//! What a transaction has read and is to write: a table of elements for each object, of which a bucket has one.

use std::collections::BTreeMap;

use bytes::Bytes;
use redgrid_core::Name;

use crate::error::TransactionError;

/// How many elements a transaction may read or write, and of how many objects. The server looks at and writes all of them in one step, in which it serves nobody else: some
/// tens of milliseconds.
pub const MAX_ELEMENTS: usize = 10_000;

/// How many bytes these may have in all: 16 MiB. They are in memory here, and there in one request.
pub const MAX_BYTES: usize = 16 << 20;

/// What type of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bucket,
    Map,
    Set,
}

impl Kind {
    /// What the server calls it.
    pub(crate) fn as_type(self) -> &'static str {
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

/// What is to become of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// A value; of a bucket with options of SET.
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

/// An element of an object: what it was when it was first read, if it was, and what it is to be. That of a set has an empty value.
#[derive(Debug, Default)]
pub(crate) struct Element {
    pub(crate) seen: Option<Option<Bytes>>,
    pub(crate) write: Option<Write>,
}

impl Element {
    /// What it is within the transaction, where that is known.
    fn now(&self) -> Option<Option<Bytes>> {
        match &self.write {
            Some(write) => Some(write.value().cloned()),
            None => self.seen.clone(),
        }
    }
}

/// An object that the transaction has to do with.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    pub(crate) elements: BTreeMap<Bytes, Element>,
    /// How many elements it had when that was first asked.
    pub(crate) len: Option<u64>,
    /// All its elements were read: what is not among them was not there.
    whole: bool,
    /// Nothing of what was there is to stay.
    pub(crate) cleared: bool,
}

/// The objects by their keys.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<Bytes, Touched>,
    elements: usize,
    bytes: usize,
}

impl State {
    /// The transaction has to do with an object, as one of this type.
    pub(crate) fn enter(&mut self, name: &Name, key: &Bytes, kind: Kind) -> Result<(), TransactionError> {
        if self.objects.len() >= MAX_ELEMENTS && !self.objects.contains_key(key) {
            return Err(TransactionError::too_large("objects", MAX_ELEMENTS, self.objects.len() + 1));
        }
        let touched = self.objects.entry(key.clone()).or_insert_with(|| Touched {
            name: name.clone(),
            kind,
            elements: BTreeMap::new(),
            len: None,
            whole: false,
            cleared: false,
        });
        match touched.kind == kind {
            true => Ok(()),
            false => Err(TransactionError::WrongType {
                name: name.clone(),
                expected: kind.name(),
                found: format!("a {} of this transaction", touched.kind.name()),
            }),
        }
    }

    /// What an element is within the transaction; nothing where the server has to be asked.
    pub(crate) fn known(&self, key: &Bytes, element: &Bytes) -> Option<Option<Bytes>> {
        let touched = self.objects.get(key)?;
        let found = touched.elements.get(element);
        match found.filter(|found| found.write.is_some() || !touched.cleared) {
            Some(found) => found.now(),
            None => (touched.cleared || touched.whole).then_some(None),
        }
    }

    /// The server has said what an element is. It stays what it was when it was first read.
    pub(crate) fn saw(&mut self, key: &Bytes, element: Bytes, value: Option<Bytes>) -> Result<(), TransactionError> {
        let size = value.as_ref().map_or(0, Bytes::len);
        let of_former = |former: &Element| former.seen.as_ref().map_or(0, |_| size);
        let Some(found) = self.element(key, element, size, of_former)? else { return Ok(()) };
        found.seen.get_or_insert(value);
        Ok(())
    }

    /// The server has said how many elements there are.
    pub(crate) fn counted(&mut self, key: &Bytes, len: u64) {
        if let Some(touched) = self.objects.get_mut(key) {
            touched.len.get_or_insert(len);
        }
    }

    /// The server has said what all elements are.
    pub(crate) fn saw_all(&mut self, key: &Bytes, all: Vec<(Bytes, Bytes)>) -> Result<(), TransactionError> {
        self.counted(key, all.len() as u64);
        for (element, value) in all {
            self.saw(key, element, Some(value))?;
        }
        if let Some(touched) = self.objects.get_mut(key) {
            touched.whole = true;
        }
        Ok(())
    }

    /// An element is to be this.
    pub(crate) fn write(&mut self, key: &Bytes, element: Bytes, write: Write) -> Result<(), TransactionError> {
        let of_former = |former: &Element| former.write.as_ref().map_or(0, Write::size);
        if let Some(found) = self.element(key, element, write.size(), of_former)? {
            found.write = Some(write);
        }
        Ok(())
    }

    /// Nothing is to stay.
    pub(crate) fn clear(&mut self, key: &Bytes) {
        let Some(touched) = self.objects.get_mut(key) else { return };
        touched.cleared = true;
        // What was only written takes no room any more.
        touched.elements.retain(|name, element| {
            self.bytes -= element.write.take().as_ref().map_or(0, Write::size);
            let was_read = element.seen.is_some();
            if !was_read {
                self.elements -= 1;
                self.bytes -= name.len();
            }
            was_read
        });
    }

    /// All elements as they are within the transaction; nothing where the server has to be asked.
    pub(crate) fn all(&self, key: &Bytes) -> Option<Vec<(Bytes, Bytes)>> {
        let touched = self.objects.get(key).filter(|touched| touched.whole || touched.cleared)?;
        let now = |(element, of): (&Bytes, &Element)| {
            let value = if touched.cleared { of.write.as_ref()?.value().cloned() } else { of.now().flatten() };
            Some((element.clone(), value?))
        };
        Some(touched.elements.iter().filter_map(now).collect())
    }

    /// How many elements there are within the transaction; or what is not known for that: how many there are on the server, and whether
    /// these elements are.
    pub(crate) fn len(&self, key: &Bytes) -> Result<u64, Vec<Bytes>> {
        let touched = self.objects.get(key).ok_or_else(Vec::new)?;
        if let Some(all) = self.all(key) {
            return Ok(all.len() as u64);
        }
        let written = || touched.elements.iter().filter(|(_, element)| element.write.is_some());
        let unseen: Vec<_> =
            written().filter(|(_, element)| element.seen.is_none()).map(|(element, _)| element.clone()).collect();
        let Some(len) = touched.len.filter(|_| unseen.is_empty()) else { return Err(unseen) };
        let is = |element: &Element| element.write.as_ref().is_some_and(|write| write.value().is_some());
        let was = |element: &Element| element.seen.as_ref().is_some_and(Option::is_some);
        let more = written().filter(|(_, element)| is(element) && !was(element)).count() as u64;
        let fewer = written().filter(|(_, element)| !is(element) && was(element)).count() as u64;
        Ok((len + more).saturating_sub(fewer))
    }

    /// The same without what it writes.
    pub(crate) fn only_read(&self) -> State {
        let seen = |(name, element): (&Bytes, &Element)| {
            let seen = Some(element.seen.clone()?);
            Some((name.clone(), Element { seen, write: None }))
        };
        let read = |(key, of): (&Bytes, &Touched)| {
            let elements = of.elements.iter().filter_map(seen).collect();
            let Touched { name, kind, len, whole, .. } = of;
            let read = Touched { name: name.clone(), kind: *kind, elements, len: *len, whole: *whole, cleared: false };
            (key.clone(), read)
        };
        State { objects: self.objects.iter().map(read).collect(), ..*self }
    }

    /// A place for an element of which this is added and what was so of it before is dropped, if the transaction has room.
    fn element(
        &mut self,
        key: &Bytes,
        element: Bytes,
        size: usize,
        of_former: impl Fn(&Element) -> usize,
    ) -> Result<Option<&mut Element>, TransactionError> {
        let Some(touched) = self.objects.get_mut(key) else { return Ok(None) };
        let (new, more, less) = match touched.elements.get(&element) {
            Some(former) => (0, size, of_former(former)),
            None => (1, size + element.len(), 0),
        };
        let (elements, bytes) = (self.elements + new, self.bytes + more - less);
        if elements > MAX_ELEMENTS {
            return Err(TransactionError::too_large("elements", MAX_ELEMENTS, elements));
        }
        if bytes > MAX_BYTES {
            return Err(TransactionError::too_large("bytes", MAX_BYTES, bytes));
        }
        (self.elements, self.bytes) = (elements, bytes);
        Ok(Some(touched.elements.entry(element).or_default()))
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
        state.enter(&Name::new("m").unwrap(), &key, Kind::Map).unwrap();
        (state, key)
    }

    fn put(value: &'static str) -> Write {
        Write::Put(bytes(value), Vec::new())
    }

    #[test]
    fn what_was_written_is_read_and_what_was_read_stays() {
        let (mut state, key) = map();
        assert_eq!(state.known(&key, &bytes("a")), None);
        state.saw(&key, bytes("a"), Some(bytes("1"))).unwrap();
        state.saw(&key, bytes("a"), Some(bytes("2"))).unwrap();
        assert_eq!(state.known(&key, &bytes("a")), Some(Some(bytes("1"))));
        state.write(&key, bytes("a"), Write::Remove).unwrap();
        state.write(&key, bytes("b"), put("3")).unwrap();
        assert_eq!(state.known(&key, &bytes("a")), Some(None));
        assert_eq!(state.known(&key, &bytes("b")), Some(Some(bytes("3"))));
        assert_eq!(state.objects[&key].elements[&bytes("a")].seen, Some(Some(bytes("1"))));
    }

    #[test]
    fn a_length_is_that_of_the_server_and_what_is_written() {
        let (mut state, key) = map();
        assert_eq!(state.len(&key), Err(vec![]));
        for element in ["a", "b", "c"] {
            state.write(&key, bytes(element), put("1")).unwrap();
        }
        state.write(&key, bytes("d"), Write::Remove).unwrap();
        assert_eq!(state.len(&key).unwrap_err().len(), 4);
        state.counted(&key, 7);
        for (element, was) in [("a", None), ("b", Some("1")), ("c", None), ("d", Some("1"))] {
            state.saw(&key, bytes(element), was.map(bytes)).unwrap();
        }
        assert_eq!(state.len(&key), Ok(8));
        state.clear(&key);
        assert_eq!((state.len(&key), state.known(&key, &bytes("b"))), (Ok(0), Some(None)));
        state.write(&key, bytes("b"), put("2")).unwrap();
        assert_eq!(state.all(&key), Some(vec![(bytes("b"), bytes("2"))]));
    }

    #[test]
    fn of_what_was_read_as_a_whole_nothing_else_is_there() {
        let (mut state, key) = map();
        state.write(&key, bytes("b"), Write::Remove).unwrap();
        state.saw_all(&key, vec![(bytes("a"), bytes("1")), (bytes("b"), bytes("2"))]).unwrap();
        assert_eq!(state.known(&key, &bytes("x")), Some(None));
        assert_eq!((state.all(&key), state.len(&key)), (Some(vec![(bytes("a"), bytes("1"))]), Ok(1)));
    }

    #[test]
    fn a_transaction_has_bounds() {
        let (mut state, key) = map();
        for n in 0..MAX_ELEMENTS {
            state.write(&key, n.to_string().into(), put("1")).unwrap();
        }
        state.write(&key, bytes("1"), put("2")).unwrap();
        let told = state.write(&key, bytes("x"), put("1")).unwrap_err();
        assert!(matches!(told, TransactionError::TooLarge { what: "elements", .. }), "{told:?}");
        let (mut state, key) = map();
        let told = state.write(&key, bytes("x"), Write::Put(vec![0; MAX_BYTES].into(), vec![])).unwrap_err();
        assert!(matches!(told, TransactionError::TooLarge { what: "bytes", .. }), "{told:?}");
        let told = state.enter(&Name::new("m").unwrap(), &key, Kind::Set).unwrap_err();
        assert!(matches!(told, TransactionError::WrongType { .. }), "{told:?}");
        // What has nothing but a name has a bound, too.
        for n in 1..MAX_ELEMENTS {
            let name = Name::new(n.to_string()).unwrap();
            state.enter(&name, &n.to_string().into(), Kind::Map).unwrap();
        }
        state.enter(&Name::new("m").unwrap(), &key, Kind::Map).unwrap();
        let told = state.enter(&Name::new("x").unwrap(), &bytes("x"), Kind::Map).unwrap_err();
        assert!(matches!(told, TransactionError::TooLarge { what: "objects", .. }), "{told:?}");
    }

    #[test]
    fn what_is_written_anew_or_dropped_takes_no_room() {
        let (mut state, key) = map();
        let large = || Write::Put(vec![0; MAX_BYTES / 2].into(), vec![]);
        for _ in 0..5 {
            state.write(&key, bytes("a"), large()).unwrap();
            state.write(&key, bytes("b"), put("1")).unwrap();
        }
        state.clear(&key);
        assert_eq!((state.elements, state.bytes), (0, 0));
        state.saw(&key, bytes("a"), Some(bytes("12"))).unwrap();
        state.saw(&key, bytes("a"), Some(bytes("12345"))).unwrap();
        state.write(&key, bytes("a"), large()).unwrap();
        state.write(&key, bytes("a"), Write::Remove).unwrap();
        assert_eq!((state.elements, state.bytes), (1, 3));
        state.clear(&key);
        assert_eq!((state.elements, state.bytes), (1, 3));
    }
}
