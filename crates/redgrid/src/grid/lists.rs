//! Lists and streams.

use super::Grid;

impl Grid {
    /// A list, as JSON; [`List::with_codec`](redgrid_list::List::with_codec) has it another way. See [`List`](redgrid_list::List).
    #[cfg(all(feature = "list", feature = "json"))]
    #[doc(alias = "getList")]
    pub fn list<T>(&self, name: impl AsRef<str>) -> redgrid_list::List<T> {
        redgrid_list::List::new(&self.client, name)
    }

    /// A list, as this codec writes its elements. See [`List`](redgrid_list::List).
    #[cfg(feature = "list")]
    pub fn list_with<T, C: redgrid_codecs::Codec>(&self, name: impl AsRef<str>, codec: C) -> redgrid_list::List<T, C> {
        redgrid_list::List::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Entries in the order in which they were added, read by anybody or by groups, as JSON. See [`Stream`](redgrid_stream::Stream).
    #[cfg(all(feature = "stream", feature = "json"))]
    #[doc(alias = "getStream")]
    pub fn stream<K, V>(&self, name: impl AsRef<str>) -> redgrid_stream::Stream<K, V> {
        redgrid_stream::Stream::new(&self.client, name)
    }

    /// The same with fields and values as these codecs write them. See [`Stream`](redgrid_stream::Stream).
    #[cfg(feature = "stream")]
    pub fn stream_with<K, V, KC: redgrid_codecs::Codec, VC: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> redgrid_stream::Stream<K, V, KC, VC> {
        redgrid_stream::Stream::<K, V, redgrid_codecs::Raw>::new(&self.client, name).with_codecs(keys, values)
    }
}
