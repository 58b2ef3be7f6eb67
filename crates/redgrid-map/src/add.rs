//! Numbers that the server adds to.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Arithmetic, Codec, Encode, Numeric};
use redgrid_core::object::ObjectError;

use crate::map::Map;

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Adds to the key's number on the server, 0 where it is not in the map; tells what it is then.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; a sum beyond the server's numbers is refused.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        VC: Numeric<V>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let by = self.place.encoded(&self.values, by)?;
        let sum: Bytes = match VC::ARITHMETIC {
            Arithmetic::Integer => {
                let request = self.place.command("HINCRBY")?.arg(field.clone()).arg(by);
                self.place.change::<i64>(request).await?.to_string().into()
            }
            Arithmetic::Float => {
                self.place.change(self.place.command("HINCRBYFLOAT")?.arg(field.clone()).arg(by)).await?
            }
        };
        self.place.decoded(&self.values, &sum, || crate::read::shown(&field))
    }
}
