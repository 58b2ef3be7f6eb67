//! Queues whose messages are acknowledged.

use super::Grid;

impl Grid {
    /// A queue whose messages are acknowledged, as JSON; [`ReliableQueue::with_codec`](redgrid_reliable_queue::ReliableQueue::with_codec) has
    /// them another way. See [`ReliableQueue`](redgrid_reliable_queue::ReliableQueue).
    #[cfg(all(feature = "reliable-queue", feature = "json"))]
    #[doc(alias = "getReliableQueue")]
    pub fn reliable_queue<T>(&self, name: impl AsRef<str>) -> redgrid_reliable_queue::ReliableQueue<T> {
        redgrid_reliable_queue::ReliableQueue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`ReliableQueue`](redgrid_reliable_queue::ReliableQueue).
    #[cfg(feature = "reliable-queue")]
    pub fn reliable_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_reliable_queue::ReliableQueue<T, C> {
        redgrid_reliable_queue::ReliableQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
