//! Floating-point numbers as text.

use std::borrow::Cow;

use bytes::Bytes;

use crate::text::text;
use crate::{Arithmetic, Codec, Decode, DecodeError, Encode, EncodeError, Numeric};

/// `f64` as Java writes a `double` (`1.0`, `2.0E-7`, `NaN`, `Infinity`), as in Redisson's
/// DoubleCodec. It writes the fewest digits that are read as the same number, as Java 19 and newer
/// do; older versions sometimes write one more. It reads any decimal number, and so also the
/// results of the server's additions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[doc(alias = "DoubleCodec")]
pub struct Double;

impl Codec for Double {
    fn name(&self) -> Cow<'static, str> {
        "Double".into()
    }
}

impl Encode<f64> for Double {
    fn encode(&self, value: &f64) -> Result<Bytes, EncodeError> {
        Ok(java(*value).into_bytes().into())
    }
}

impl Decode<f64> for Double {
    fn decode(&self, bytes: &Bytes) -> Result<f64, DecodeError> {
        let number = text(bytes).and_then(|text| text.parse().ok());
        number.ok_or_else(|| DecodeError::unexpected(self, bytes, "a decimal number"))
    }
}

impl Numeric<f64> for Double {
    const ARITHMETIC: Arithmetic = Arithmetic::Float;
}

/// Formats a number as `Double.toString`: without an exponent from 10⁻³ to 10⁷, otherwise with one;
/// always with a decimal point.
fn java(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else if size == 0.0 || (1e-3..1e7).contains(&size) {
        format!("{value:?}")
    } else {
        let text = format!("{value:E}");
        match text.split_once('E') {
            // Java writes at least two digits and chooses the nearest number, so the second digit
            // is not always 0 (`4.9E-324`).
            Some((digits, _)) if !digits.contains('.') => format!("{value:.1E}"),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_java_does() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (0.0009, "9.0E-4"),
            (2e-7, "2.0E-7"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (-123_456_789.5, "-1.234567895E8"),
            (1e21, "1.0E21"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (4.9e-324, "4.9E-324"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(java(value), text);
        }
    }
}
