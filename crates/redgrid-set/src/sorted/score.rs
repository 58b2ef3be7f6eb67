//! Scores: numbers that are no NaN, as the server takes them, and what values have.

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::Name;
use redgrid_core::object::ObjectError;

use crate::elements::Elements;

/// As the server reads it exactly.
pub(super) fn text(name: &Name, score: f64) -> Result<Bytes, ObjectError> {
    if score.is_nan() {
        return Err(ObjectError::InvalidArgument {
            name: name.clone(),
            option: "score",
            expected: "a number".into(),
            got: "NaN".into(),
        });
    }
    // With an exponent where it has many digits.
    Ok(format!("{score:?}").into())
}

impl<T, C: Codec> Elements<T, C> {
    pub(crate) async fn score<Q: ?Sized>(&self, value: &Q) -> Result<Option<f64>, ObjectError>
    where
        C: Encode<Q>,
    {
        let value = self.encoded(value)?;
        self.place.read(self.place.command("ZSCORE")?.arg(value)).await
    }

    pub(crate) async fn scores<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<f64>>, ObjectError>
    where
        C: Encode<Q>,
    {
        let values = self.encoded_all(values)?;
        self.read_parts("ZMSCORE", &values).await
    }

    /// Pairs of scores and values, as commands take them, each with its size.
    pub(crate) fn scored<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, f64)>,
    ) -> Result<Vec<(Bytes, Bytes)>, ObjectError>
    where
        C: Encode<Q>,
    {
        let name = self.name()?;
        entries.into_iter().map(|(value, score)| Ok((text(name, score)?, self.encoded(value)?))).collect()
    }
}
