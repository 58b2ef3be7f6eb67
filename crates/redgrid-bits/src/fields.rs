//! Whole numbers in the bits of a set.

use redgrid_core::Request;
use redgrid_core::object::ObjectError;

use crate::bit_set::{BITS, BitSet};

/// How many things one call does at most: it is one step, and the server does nothing else meanwhile.
const AT_ONCE: usize = 1000;

/// Where a whole number lies in a bit set, and how wide it is. The highest bit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    signed: bool,
    bits: u32,
    offset: u64,
}

impl Field {
    /// A number with a sign, of 1 to 64 bits, from this bit on. Another width is refused by the calls.
    pub const fn signed(bits: u32, offset: u64) -> Field {
        Field { signed: true, bits, offset }
    }

    /// A number of 0 or more, of 1 to 63 bits, from this bit on. Another width is refused by the calls.
    pub const fn unsigned(bits: u32, offset: u64) -> Field {
        Field { signed: false, bits, offset }
    }

    /// The smallest and the largest number it holds.
    pub const fn bounds(self) -> (i64, i64) {
        match self.signed {
            // Of no width: no call takes it.
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
        let most = if self.signed { 64 } else { 63 };
        if !(1..=most).contains(&self.bits) {
            return Err(set.place.invalid("width", format_args!("1 to {most} bits"), self.bits));
        }
        if self.offset.checked_add(self.bits.into()).is_none_or(|end| end > BITS) {
            let last = BITS - u64::from(self.bits);
            return Err(set.place.invalid("offset", format_args!("0 to {last}"), self.offset));
        }
        Ok(self)
    }

    fn fits(self, set: &BitSet, value: i64) -> Result<(), ObjectError> {
        let (least, most) = self.bounds();
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(set.place.invalid("value", format_args!("{least} to {most}"), value)),
        }
    }
}

/// What becomes of a sum that its field can not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[doc(alias = "BitFieldOverflow")]
pub enum Overflow {
    /// It begins anew at the other end, as that of `wrapping_add`.
    #[default]
    Wrap,
    /// It is the last number before, as that of `saturating_add`.
    #[doc(alias = "SAT")]
    Saturate,
    /// Nothing is added, as by `checked_add`.
    Fail,
}

/// A part of what [`BitSet::fields`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldOp {
    /// Tells the number.
    Get(Field),
    /// Sets the number; tells what it was.
    Set(Field, i64),
    /// Adds to the number; tells what it is then, `None` where it overflowed and that is to [`Overflow::Fail`].
    Add(Field, i64, Overflow),
}

impl BitSet {
    /// The number in a field.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getSigned")]
    #[doc(alias = "getUnsigned")]
    #[doc(alias = "getByte")]
    #[doc(alias = "getShort")]
    #[doc(alias = "getInteger")]
    #[doc(alias = "getLong")]
    pub async fn integer(&self, field: Field) -> Result<i64, ObjectError> {
        self.one(FieldOp::Get(field)).await.map(Option::unwrap_or_default)
    }

    /// Sets the number in a field; tells what it was.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a number that the field can not hold is [`ObjectError::InvalidArgument`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "setSigned")]
    #[doc(alias = "setUnsigned")]
    #[doc(alias = "setByte")]
    #[doc(alias = "setShort")]
    #[doc(alias = "setInteger")]
    #[doc(alias = "setLong")]
    pub async fn set_integer(&self, field: Field, value: i64) -> Result<i64, ObjectError> {
        self.one(FieldOp::Set(field, value)).await.map(Option::unwrap_or_default)
    }

    /// Adds to the number in a field on the server; tells what it is then. `None`, and nothing is added, where it overflowed and that is to
    /// [`Overflow::Fail`].
    ///
    /// # Errors
    ///
    /// As [`BitSet::set_integer`].
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::set_integer`].
    #[doc(alias = "incrementAndGetSigned")]
    #[doc(alias = "incrementAndGetUnsigned")]
    #[doc(alias = "incrementAndGetByte")]
    #[doc(alias = "incrementAndGetShort")]
    #[doc(alias = "incrementAndGetInteger")]
    #[doc(alias = "incrementAndGetLong")]
    pub async fn add_integer(&self, field: Field, by: i64, overflow: Overflow) -> Result<Option<i64>, ObjectError> {
        self.one(FieldOp::Add(field, by, overflow)).await
    }

    /// Does several of these in one step, in their order; an answer for each. At most 1,000.
    ///
    /// ```no_run
    /// # async fn demo(bits: &redgrid_bits::BitSet) -> Result<(), redgrid_bits::ObjectError> {
    /// use redgrid_bits::{Field, FieldOp, Overflow};
    ///
    /// let (level, seen) = (Field::unsigned(4, 0), Field::unsigned(28, 4));
    /// let told = bits.fields([FieldOp::Get(level), FieldOp::Add(seen, 1, Overflow::Saturate)]).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`BitSet::set_integer`]; nothing is done then, or all of it.
    ///
    /// # Cancel safety
    ///
    /// As [`BitSet::set_integer`].
    #[doc(alias = "bitField")]
    pub async fn fields(&self, ops: impl IntoIterator<Item = FieldOp>) -> Result<Vec<Option<i64>>, ObjectError> {
        let ops: Vec<FieldOp> = ops.into_iter().collect();
        if ops.len() > AT_ONCE {
            return Err(self.place.invalid("operations", format_args!("at most {AT_ONCE}"), ops.len()));
        }
        if ops.is_empty() {
            return Ok(Vec::new());
        }
        if ops.iter().all(|op| matches!(op, FieldOp::Get(_))) {
            return self.place.read(self.written(self.place.command("BITFIELD_RO")?, &ops)?).await;
        }
        self.place.change(self.written(self.place.command("BITFIELD")?, &ops)?).await
    }

    async fn one(&self, op: FieldOp) -> Result<Option<i64>, ObjectError> {
        Ok(self.fields([op]).await?.pop().flatten())
    }

    fn written(&self, request: Request, ops: &[FieldOp]) -> Result<Request, ObjectError> {
        ops.iter().try_fold(request, |request, op| {
            let named = |request: Request, what: &'static str, field: Field| {
                let field = field.check(self)?;
                Ok::<_, ObjectError>(request.arg(what).arg(field.kind()).arg(field.offset.to_string()))
            };
            match *op {
                FieldOp::Get(field) => named(request, "GET", field),
                FieldOp::Set(field, value) => {
                    let request = named(request, "SET", field)?;
                    field.fits(self, value)?;
                    Ok(request.int(value))
                }
                FieldOp::Add(field, by, overflow) => {
                    let how = match overflow {
                        Overflow::Wrap => "WRAP",
                        Overflow::Saturate => "SAT",
                        Overflow::Fail => "FAIL",
                    };
                    Ok(named(request.arg("OVERFLOW").arg(how), "INCRBY", field)?.int(by))
                }
            }
        })
    }
}
