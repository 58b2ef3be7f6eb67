//! Queues.

use super::Grid;

impl Grid {
    /// Returns the queue with this name. Consumers can wait for its elements, which are encoded as
    /// JSON. See [`Queue`](redgrid_queue::Queue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let jobs = grid.queue::<String>("jobs");
    /// jobs.push("resize 42.png").await?;
    /// let job = jobs.take().await?; // waits if there is none
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getQueue")]
    #[doc(alias = "getBlockingQueue")]
    pub fn queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::Queue<T> {
        redgrid_queue::Queue::new(&self.client, name)
    }

    /// Returns the queue with this name. Its elements are encoded by `codec`. See
    /// [`Queue`](redgrid_queue::Queue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let jobs = grid.queue_with::<String, _>("jobs", Text);
    /// jobs.push("resize 42.png").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "queue")]
    pub fn queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::Queue<T, C> {
        redgrid_queue::Queue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the queue with two ends with this name. Its elements are encoded as JSON. See
    /// [`Deque`](redgrid_queue::Deque).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::queue::End;
    ///
    /// let steps = grid.deque::<String>("steps");
    /// steps.push_back("paint").await?;
    /// let undone = steps.take_within(End::Back, Duration::from_secs(1)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getDeque")]
    #[doc(alias = "getBlockingDeque")]
    pub fn deque<T>(&self, name: impl AsRef<str>) -> redgrid_queue::Deque<T> {
        redgrid_queue::Deque::new(&self.client, name)
    }

    /// Returns the queue with two ends with this name. Its elements are encoded by `codec`. See
    /// [`Deque`](redgrid_queue::Deque).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let steps = grid.deque_with::<String, _>("steps", Text);
    /// steps.push_back("paint").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "queue")]
    pub fn deque_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::Deque<T, C> {
        redgrid_queue::Deque::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the queue with this name. Each element can be taken when it is due. Elements are
    /// encoded as JSON. See [`DelayedQueue`](redgrid_queue::DelayedQueue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let reminders = grid.delayed_queue::<String>("reminders");
    /// reminders.push("tea", Duration::from_secs(300)).await?;
    /// let due = reminders.take().await?; // waits until one is due
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getDelayedQueue")]
    pub fn delayed_queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::DelayedQueue<T> {
        redgrid_queue::DelayedQueue::new(&self.client, name)
    }

    /// Returns the queue with this name. Each element can be taken when it is due. Elements are
    /// encoded by `codec`. See [`DelayedQueue`](redgrid_queue::DelayedQueue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::codecs::Text;
    ///
    /// let reminders = grid.delayed_queue_with::<String, _>("reminders", Text);
    /// reminders.push("tea", Duration::from_secs(300)).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "queue")]
    pub fn delayed_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::DelayedQueue<T, C> {
        redgrid_queue::DelayedQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the ring buffer with this name, which keeps the most recent elements. Elements are
    /// encoded as JSON. See [`RingBuffer`](redgrid_queue::RingBuffer).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = grid.ring_buffer::<u32>("last-orders");
    /// orders.try_set_capacity(5).await?;
    /// orders.push(&42).await?;
    /// println!("the last orders: {:?}", orders.read_all().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getRingBuffer")]
    pub fn ring_buffer<T>(&self, name: impl AsRef<str>) -> redgrid_queue::RingBuffer<T> {
        redgrid_queue::RingBuffer::new(&self.client, name)
    }

    /// Returns the ring buffer with this name. Its elements are encoded by `codec`. See
    /// [`RingBuffer`](redgrid_queue::RingBuffer).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let log = grid.ring_buffer_with::<String, _>("last-messages", Text);
    /// log.try_set_capacity(100).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "queue")]
    pub fn ring_buffer_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::RingBuffer<T, C> {
        redgrid_queue::RingBuffer::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }

    /// Returns the priority queue with this name: the element with the smallest priority is taken
    /// first. Elements are encoded as JSON. See [`PriorityQueue`](redgrid_queue::PriorityQueue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let jobs = grid.priority_queue::<String>("jobs");
    /// jobs.push("newsletter", 9).await?;
    /// jobs.push("alarm", 1).await?;
    /// let first = jobs.take_within(Duration::from_secs(1)).await?; // the alarm
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "queue", feature = "json"))]
    #[doc(alias = "getPriorityQueue")]
    #[doc(alias = "getPriorityBlockingQueue")]
    #[doc(alias = "getPriorityDeque")]
    #[doc(alias = "getPriorityBlockingDeque")]
    pub fn priority_queue<T>(&self, name: impl AsRef<str>) -> redgrid_queue::PriorityQueue<T> {
        redgrid_queue::PriorityQueue::new(&self.client, name)
    }

    /// Returns the priority queue with this name. Its elements are encoded by `codec`. See
    /// [`PriorityQueue`](redgrid_queue::PriorityQueue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let jobs = grid.priority_queue_with::<String, _>("jobs", Text);
    /// jobs.push("alarm", 1).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "queue")]
    pub fn priority_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_queue::PriorityQueue<T, C> {
        redgrid_queue::PriorityQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
