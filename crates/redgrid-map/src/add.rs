//! Addition on the server.

use bytes::Bytes;
use redgrid_codecs::{Arithmetic, Codec, EncodesFor, Numeric};
use redgrid_core::object::ObjectError;

use crate::map::Map;

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Adds to the number of a key on the server. Returns the sum.
    ///
    /// A key that is not in the map counts as 0.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. The server refuses
    /// a sum beyond the range of its numbers.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        VC: Numeric<V>,
        KC: EncodesFor<K, Q>,
    {
        let field = self.object_ref.encoded(&self.keys, key)?;
        let by = self.object_ref.encoded(&self.values, by)?;
        let sum: Bytes = match VC::ARITHMETIC {
            Arithmetic::Integer => {
                let request = self.object_ref.command("HINCRBY")?.arg(field.clone()).arg(by);
                self.object_ref.change::<i64>(request).await?.to_string().into()
            }
            Arithmetic::Float => {
                self.object_ref.change(self.object_ref.command("HINCRBYFLOAT")?.arg(field.clone()).arg(by)).await?
            }
        };
        self.object_ref.decoded(&self.values, &sum, || crate::read::key_for_error(&field))
    }
}
