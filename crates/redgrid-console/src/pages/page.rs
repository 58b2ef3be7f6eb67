//! The pages and their addresses.

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// Servers, clients and findings.
    Overview,
    /// The list of locks.
    Locks,
    /// One lock.
    Lock,
    /// The names that tasks wait for the longest.
    Contention,
    /// The list of reliable queues.
    Queues,
    /// One reliable queue.
    Queue,
    /// The list of semaphores, latches, barriers, events and elections.
    Synchronizers,
    /// The list of rate limiters.
    Limiters,
    /// The list of topics, streams and caches.
    Streams,
    /// The client processes.
    Clients,
    /// The search for objects.
    Objects,
    /// The checks of the settings.
    Doctor,
    /// The recorded actions, and the events that processes report.
    Events,
    /// An action: its effect before it is confirmed, or its outcome.
    Action,
}

impl Page {
    /// All pages, in the order of the navigation.
    pub(super) const ALL: [Page; 14] = [
        Page::Overview,
        Page::Locks,
        Page::Lock,
        Page::Contention,
        Page::Queues,
        Page::Queue,
        Page::Synchronizers,
        Page::Limiters,
        Page::Streams,
        Page::Clients,
        Page::Objects,
        Page::Doctor,
        Page::Events,
        Page::Action,
    ];

    /// Returns its relative path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Page::Overview => "overview",
            Page::Locks => "locks",
            Page::Lock => "lock",
            Page::Contention => "contention",
            Page::Queues => "queues",
            Page::Queue => "queue",
            Page::Synchronizers => "synchronizers",
            Page::Limiters => "limiters",
            Page::Streams => "streams",
            Page::Clients => "clients",
            Page::Objects => "objects",
            Page::Doctor => "doctor",
            Page::Events => "events",
            Page::Action => "action",
        }
    }

    /// Returns the page with this path.
    pub(crate) fn of_path(path: &str) -> Option<Page> {
        Page::ALL.into_iter().find(|page| page.path() == path)
    }

    /// Returns its title.
    pub(super) fn title(self) -> &'static str {
        match self {
            Page::Overview => "Overview",
            Page::Locks => "Locks",
            Page::Lock => "Lock",
            Page::Contention => "Contention",
            Page::Queues => "Queues",
            Page::Queue => "Queue",
            Page::Synchronizers => "Synchronizers",
            Page::Limiters => "Limiters",
            Page::Streams => "Streams and caches",
            Page::Clients => "Clients",
            Page::Objects => "Objects",
            Page::Doctor => "Doctor",
            Page::Events => "Events",
            Page::Action => "Action",
        }
    }
}
