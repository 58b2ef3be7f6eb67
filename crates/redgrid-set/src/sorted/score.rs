//! Encoding of scores, which rejects NaN, and reads of scores.

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::Name;
use redgrid_core::object::ObjectError;

use crate::elements::Elements;

/// Encodes a score as text that the server parses exactly.
pub(super) fn encode_score(name: &Name, score: f64) -> Result<Bytes, ObjectError> {
    if score.is_nan() {
        return Err(ObjectError::invalid_argument(name, "score", "a number", "NaN"));
    }
    // The text has an exponent if the number has many digits.
    Ok(format!("{score:?}").into())
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) async fn score<Q: ?Sized>(&self, value: &Q) -> Result<Option<f64>, ObjectError>
    where
        C: Encode<Q>,
    {
        let value = self.encode(value)?;
        self.object_ref.read(self.object_ref.command("ZSCORE")?.arg(value)).await
    }

    pub(crate) async fn scores<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<f64>>, ObjectError>
    where
        C: Encode<Q>,
    {
        let values = self.encode_all(values)?;
        self.read_chunks("ZMSCORE", &values).await
    }

    /// Encodes values with their scores as pairs of score and value, as commands expect them.
    pub(crate) fn encode_scored<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<Vec<(Bytes, Bytes)>, ObjectError>
    where
        C: Encode<Q>,
    {
        let name = self.name()?;
        entries.into_iter().map(|(value, score)| Ok((encode_score(name, score)?, self.encode(value)?))).collect()
    }
}
