//! The writes that a fence protects.

use bytes::Bytes;

use super::FenceError;
use crate::failure::Failure;
use crate::name::Name;
use crate::object::SetTtl;

/// Maximum number of fields in one write. Fields and values together stay below the 8,000 values
/// that Lua's `unpack` can return.
const MAX_FIELDS: usize = 3_000;

/// A write that [`Fence::write`](super::Fence::write) executes if its token is not stale.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Write {
    /// Sets the key.
    Set {
        /// The new value.
        value: Bytes,
        /// The lifetime of the key.
        ttl: SetTtl,
    },
    /// Sets fields of a hash.
    HashSet {
        /// The fields and their values: 1 to 3,000.
        fields: Vec<(Bytes, Bytes)>,
    },
    /// Deletes fields of a hash.
    HashDelete {
        /// The fields: 1 to 3,000.
        fields: Vec<Bytes>,
    },
    /// Adds to the number under the key.
    Increment {
        /// The number to add.
        by: i64,
    },
    /// Deletes the key.
    Delete,
}

impl Write {
    pub(super) fn command(self, name: &Name) -> Result<(&'static str, Vec<Bytes>), FenceError> {
        let count = match &self {
            Write::HashSet { fields } => fields.len(),
            Write::HashDelete { fields } => fields.len(),
            _ => 1,
        };
        if !(1..=MAX_FIELDS).contains(&count) {
            let expected = format!("1 to {MAX_FIELDS} at a time");
            return Err(Failure::invalid_argument(name, "fields", expected, count).into());
        }
        Ok(match self {
            Write::Set { value, ttl } => ("SET", std::iter::once(value).chain(ttl.options(name)?).collect()),
            Write::HashSet { fields } => {
                ("HSET", fields.into_iter().flat_map(|(field, value)| [field, value]).collect())
            }
            Write::HashDelete { fields } => ("HDEL", fields),
            Write::Increment { by } => ("INCRBY", vec![by.to_string().into()]),
            Write::Delete => ("DEL", Vec::new()),
        })
    }
}
