//! One object of a transaction: its reads, and its buffered writes.

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, ObjectRef, chunks};
use redgrid_core::{FromReply, Name, Pairs, Request};

use crate::error::TransactionError;
use crate::state::{Kind, MAX_ELEMENTS, State, Write};
use crate::transaction::Transaction;

/// One object of a transaction.
#[derive(Clone)]
pub(crate) struct TransactionObject {
    transaction: Transaction,
    pub(crate) object_ref: ObjectRef,
    kind: Kind,
}

impl TransactionObject {
    pub(crate) fn new(transaction: &Transaction, name: impl AsRef<str>, kind: Kind) -> TransactionObject {
        TransactionObject {
            object_ref: ObjectRef::new(&transaction.client, name),
            transaction: transaction.clone(),
            kind,
        }
    }

    fn key(&self) -> Result<(&Name, &Bytes), ObjectError> {
        self.object_ref.name_and_key()
    }

    /// Runs `work` on the state of the transaction, after checking that this object may be part of
    /// it.
    fn with_state<T>(&self, work: impl FnOnce(&mut State, &Bytes) -> T) -> Result<T, TransactionError> {
        let (name, key) = self.key()?;
        self.transaction.check_time()?;
        let mut progress = self.transaction.progress();
        let state = progress.state.as_mut().ok_or(TransactionError::Over)?;
        let client = &self.transaction.client;
        if let Some((first_key, first)) = state.objects.first_key_value()
            && client.slot(first_key) != client.slot(key)
        {
            return Err(TransactionError::OtherSlot { name: name.clone(), other: first.name.clone() });
        }
        state.add_object(name, key, self.kind)?;
        Ok(work(state, key))
    }

    /// Returns the value of an element within the transaction.
    pub(crate) async fn get(&self, element: Bytes) -> Result<Option<Bytes>, TransactionError> {
        Ok(self.get_many(vec![element]).await?.pop().flatten())
    }

    /// Returns the values of elements within the transaction. Elements that are not known yet are
    /// read from the server, up to 500 in a request.
    pub(crate) async fn get_many(&self, elements: Vec<Bytes>) -> Result<Vec<Option<Bytes>>, TransactionError> {
        loop {
            let known = self.with_state(|state, key| {
                let known = elements.iter().map(|element| state.known(key, element));
                known.collect::<Vec<_>>()
            })?;
            let unknown = elements.iter().zip(&known).filter(|(_, known)| known.is_none());
            let unknown: Vec<_> = unknown.map(|(element, _)| element.clone()).collect();
            if unknown.is_empty() {
                return Ok(known.into_iter().map(Option::flatten).collect());
            }
            self.read_elements(&unknown).await?;
        }
    }

    /// Reads elements from the server.
    async fn read_elements(&self, elements: &[Bytes]) -> Result<(), TransactionError> {
        for chunk in chunks(elements, Bytes::len) {
            let values: Vec<Option<Bytes>> = match self.kind {
                Kind::Bucket => vec![self.read(self.object_ref.command("GET")?).await?],
                Kind::Map => {
                    let request = chunk.iter().cloned().fold(self.object_ref.command("HMGET")?, Request::arg);
                    self.read(request).await?
                }
                Kind::Set => {
                    let request = chunk.iter().cloned().fold(self.object_ref.command("SMISMEMBER")?, Request::arg);
                    let exist: Vec<bool> = self.read(request).await?;
                    exist.into_iter().map(|exists| exists.then(Bytes::new)).collect()
                }
            };
            self.with_state(|state, key| {
                let mut read = chunk.iter().cloned().zip(values);
                read.try_for_each(|(element, value)| state.record_read(key, element, value))
            })??;
        }
        Ok(())
    }

    /// Returns all elements within the transaction.
    pub(crate) async fn all(&self) -> Result<Vec<(Bytes, Bytes)>, TransactionError> {
        loop {
            if let Some(all) = self.with_state(|state, key| state.all(key))? {
                return Ok(all);
            }
            let count = self.count().await?;
            if count > MAX_ELEMENTS as u64 {
                return Err(TransactionError::too_large("elements", MAX_ELEMENTS, count as usize));
            }
            let all: Vec<(Bytes, Bytes)> = match self.kind {
                Kind::Set => {
                    let values: Vec<Bytes> = self.read(self.object_ref.command("SMEMBERS")?).await?;
                    values.into_iter().map(|value| (value, Bytes::new())).collect()
                }
                _ => self.read::<Pairs<Bytes, Bytes>>(self.object_ref.command("HGETALL")?).await?.0,
            };
            self.with_state(|state, key| state.record_all(key, all))??;
        }
    }

    /// Returns the number of elements within the transaction.
    pub(crate) async fn len(&self) -> Result<u64, TransactionError> {
        loop {
            let unread = match self.with_state(|state, key| state.len(key))? {
                Ok(len) => return Ok(len),
                Err(unread) => unread,
            };
            if !unread.is_empty() {
                self.read_elements(&unread).await?;
            }
            let count = self.count().await?;
            self.with_state(|state, key| state.record_len(key, count))?;
        }
    }

    async fn count(&self) -> Result<u64, TransactionError> {
        let command = if self.kind == Kind::Set { "SCARD" } else { "HLEN" };
        self.read(self.object_ref.command(command)?).await
    }

    /// Sends a read to the primary, within the timeout of the transaction.
    async fn read<T: FromReply>(&self, request: Request) -> Result<T, TransactionError> {
        let client = &self.transaction.client;
        let until = self.transaction.deadline().min(client.clock().now() + client.patience());
        let reply = client.run_until(request.idempotent(), until).await;
        if reply.is_err() {
            self.transaction.check_time()?;
        }
        let (name, _) = self.key()?;
        Ok(reply.map_err(|source| ObjectError::of_read(name, source))?)
    }

    pub(crate) fn put(&self, element: Bytes, value: Bytes, options: Vec<Bytes>) -> Result<(), TransactionError> {
        self.with_state(|state, key| state.write(key, element, Write::Put(value, options)))?
    }

    pub(crate) fn remove(&self, element: Bytes) -> Result<(), TransactionError> {
        self.with_state(|state, key| state.write(key, element, Write::Remove))?
    }

    pub(crate) fn clear(&self) -> Result<(), TransactionError> {
        self.with_state(|state, key| state.clear(key))
    }
}
