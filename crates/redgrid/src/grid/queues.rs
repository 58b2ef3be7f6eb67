//! Queues.

use super::Grid;

impl Grid {
    /// Elements in the order in which they came, which can be waited for, as JSON. See [`Queue`](redgrid_queue::Queue).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getQueue")]
    #[doc(alias = "getBlockingQueue")]
    pub fn queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::Queue<T> {
        redgrid_queue::Queue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Queue`](redgrid_queue::Queue).
    #[cfg(feature = "queue")]
    pub fn queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::Queue<T, C> {
        redgrid_queue::Queue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// A queue with two ends, as JSON. See [`Deque`](redgrid_queue::Deque).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getDeque")]
    #[doc(alias = "getBlockingDeque")]
    pub fn deque<T>(&self, name: impl AsRef<str>) -> redgrid_queue::Deque<T> {
        redgrid_queue::Deque::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`Deque`](redgrid_queue::Deque).
    #[cfg(feature = "queue")]
    pub fn deque_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::Deque<T, C> {
        redgrid_queue::Deque::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Elements that can be taken when they are due, as JSON. See [`DelayedQueue`](redgrid_queue::DelayedQueue).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getDelayedQueue")]
    pub fn delayed_queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::DelayedQueue<T> {
        redgrid_queue::DelayedQueue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`DelayedQueue`](redgrid_queue::DelayedQueue).
    #[cfg(feature = "queue")]
    pub fn delayed_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::DelayedQueue<T, C> {
        redgrid_queue::DelayedQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// The last elements that were pushed, as JSON. See [`RingBuffer`](redgrid_queue::RingBuffer).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getRingBuffer")]
    pub fn ring_buffer<T>(&self, name: impl AsRef<str>) -> redgrid_queue::RingBuffer<T> {
        redgrid_queue::RingBuffer::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`RingBuffer`](redgrid_queue::RingBuffer).
    #[cfg(feature = "queue")]
    pub fn ring_buffer_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::RingBuffer<T, C> {
        redgrid_queue::RingBuffer::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Elements that are taken by their priority, as JSON. See [`PriorityQueue`](redgrid_queue::PriorityQueue).
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getPriorityQueue")]
    #[doc(alias = "getPriorityBlockingQueue")]
    #[doc(alias = "getPriorityDeque")]
    #[doc(alias = "getPriorityBlockingDeque")]
    pub fn priority_queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::PriorityQueue<T> {
        redgrid_queue::PriorityQueue::new(&self.client, name)
    }

    /// The same, as this codec writes them. See [`PriorityQueue`](redgrid_queue::PriorityQueue).
    #[cfg(feature = "queue")]
    pub fn priority_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::PriorityQueue<T, C> {
        redgrid_queue::PriorityQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
