//! Integers in the bits of a set.

use redgrid_core::Request;
use redgrid_core::object::ObjectError;

use crate::bit_set::{BitSet, MAX_BITS};

/// The maximum number of operations in one call. It is limited because the call is one step, which
/// blocks the server.
const MAX_OPS: usize = 1000;

/// The position and the width of an integer in a bit set. The highest bit of the integer is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    signed: bool,
    bits: u32,
    offset: u64,
}

impl Field {
    /// Describes a signed integer of 1 to 64 bits that starts at bit `offset`. Calls refuse other
    /// widths.
    pub const fn signed(bits: u32, offset: u64) -> Field {
        Field { signed: true, bits, offset }
    }

    /// Describes an unsigned integer of 1 to 63 bits that starts at bit `offset`. Calls refuse
    /// other widths.
    pub const fn unsigned(bits: u32, offset: u64) -> Field {
        Field { signed: false, bits, offset }
    }

    /// Returns the smallest and the largest value.
    pub const fn bounds(self) -> (i64, i64) {
        match self.signed {
            // Every call refuses a width of 0.
            _ if self.bits == 0 => (0, 0),
            true if self.bits >= 64 => (i64::MIN, i64::MAX),
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false if self.bits >= 63 => (0, i64::MAX),
            false => (0, (1 << self.bits) - 1),
        }
    }

    fn kind(self) -> String {
        format!("{}{}", if self.signed { 'i' } else { 'u' }, self.bits)
    }

    fn check(self, set: &BitSet) -> Result<Field, ObjectError> {
        let max = if self.signed { 64 } else { 63 };
        if !(1..=max).contains(&self.bits) {
            return Err(set.object_ref.invalid("width", format_args!("1 to {max} bits"), self.bits));
        }
        if self.offset.checked_add(self.bits.into()).is_none_or(|end| end > MAX_BITS) {
            let last = MAX_BITS - u64::from(self.bits);
            return Err(set.object_ref.invalid("offset", format_args!("0 to {last}"), self.offset));
        }
        Ok(self)
    }

    fn fits(self, set: &BitSet, value: i64) -> Result<(), ObjectError> {
        let (min, max) = self.bounds();
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(set.object_ref.invalid("value", format_args!("{min} to {max}"), value))
        }
    }
}

/// The behavior of an addition whose sum does not fit into the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[doc(alias = "BitFieldOverflow")]
// Not `#[non_exhaustive]`: the server has no fourth behavior.
pub enum Overflow {
    /// The sum wraps around, as with `wrapping_add`.
    #[default]
    Wrap,
    /// The result is the nearest value that fits, as with `saturating_add`.
    #[doc(alias = "SAT")]
    Saturate,
    /// The value is not changed, as with `checked_add`.
    Fail,
}

/// One operation of [`BitSet::fields`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldOp {
    /// Returns the value.
    Get(Field),
    /// Sets the value. Returns the previous one.
    Set(Field, i64),
    /// Adds to the value. Returns the sum; `None` after an overflow with [`Overflow::Fail`].
    Add(Field, i64, Overflow),
}

impl BitSet {
    /// Returns the value of a field.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getSigned")]
    #[doc(alias = "getUnsigned")]
    #[doc(alias = "getByte")]
    #[doc(alias = "getShort")]
    #[doc(alias = "getInteger")]
    #[doc(alias = "getLong")]
    pub async fn integer(&self, field: Field) -> Result<i64, ObjectError> {
        self.execute_one(FieldOp::Get(field)).await.map(Option::unwrap_or_default)
    }

    /// Sets the value of a field. Returns the previous one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a value that does not fit
    /// into the field.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "setSigned")]
    #[doc(alias = "setUnsigned")]
    #[doc(alias = "setByte")]
    #[doc(alias = "setShort")]
    #[doc(alias = "setInteger")]
    #[doc(alias = "setLong")]
    pub async fn set_integer(&self, field: Field, value: i64) -> Result<i64, ObjectError> {
        self.execute_one(FieldOp::Set(field, value)).await.map(Option::unwrap_or_default)
    }

    /// Adds to the value of a field on the server. Returns the sum.
    ///
    /// After an overflow with [`Overflow::Fail`], nothing is added and the result is `None`.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`BitSet::set_integer`].
    #[doc(alias = "incrementAndGetSigned")]
    #[doc(alias = "incrementAndGetUnsigned")]
    #[doc(alias = "incrementAndGetByte")]
    #[doc(alias = "incrementAndGetShort")]
    #[doc(alias = "incrementAndGetInteger")]
    #[doc(alias = "incrementAndGetLong")]
    pub async fn add_integer(&self, field: Field, by: i64, overflow: Overflow) -> Result<Option<i64>, ObjectError> {
        self.execute_one(FieldOp::Add(field, by, overflow)).await
    }

    /// Executes up to 1,000 operations in one step, in their order. Returns a result for each.
    ///
    /// ```no_run
    /// # async fn demo(bits: &redgrid_bits::BitSet) -> Result<(), redgrid_bits::ObjectError> {
    /// use redgrid_bits::{Field, FieldOp, Overflow};
    ///
    /// let (level, seen) = (Field::unsigned(4, 0), Field::unsigned(28, 4));
    /// let operations = [FieldOp::Get(level), FieldOp::Add(seen, 1, Overflow::Saturate)];
    /// let results = bits.fields(operations).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`BitSet::set_integer`]. Either all operations are executed or none.
    ///
    /// # Cancel safety
    ///
    /// As for [`BitSet::set_integer`].
    #[doc(alias = "bitField")]
    pub async fn fields(&self, ops: impl IntoIterator<Item = FieldOp>) -> Result<Vec<Option<i64>>, ObjectError> {
        let ops: Vec<FieldOp> = ops.into_iter().collect();
        if ops.len() > MAX_OPS {
            return Err(self.object_ref.invalid("operations", format_args!("at most {MAX_OPS}"), ops.len()));
        }
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        if ops.iter().all(|op| matches!(op, FieldOp::Get(_))) {
            return self.object_ref.read(self.append_ops(self.object_ref.command("BITFIELD_RO")?, &ops)?).await;
        }
        self.object_ref.change(self.append_ops(self.object_ref.command("BITFIELD")?, &ops)?).await
    }

    async fn execute_one(&self, op: FieldOp) -> Result<Option<i64>, ObjectError> {
        Ok(self.fields([op]).await?.pop().flatten())
    }

    fn append_ops(&self, request: Request, ops: &[FieldOp]) -> Result<Request, ObjectError> {
        ops.iter().try_fold(request, |request, op| {
            let append = |request: Request, op_name: &'static str, field: Field| {
                let field = field.check(self)?;
                Ok::<_, ObjectError>(request.arg(op_name).arg(field.kind()).arg(field.offset.to_string()))
            };
            match *op {
                FieldOp::Get(field) => append(request, "GET", field),
                FieldOp::Set(field, value) => {
                    let request = append(request, "SET", field)?;
                    field.fits(self, value)?;
                    Ok(request.int(value))
                }
                FieldOp::Add(field, by, overflow) => {
                    let mode = match overflow {
                        Overflow::Wrap => "WRAP",
                        Overflow::Saturate => "SAT",
                        Overflow::Fail => "FAIL",
                    };
                    Ok(append(request.arg("OVERFLOW").arg(mode), "INCRBY", field)?.int(by))
                }
            }
        })
    }
}
