//! The console: its options, and its router.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::request::Parts;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use redgrid_core::{Client, Config};
use redgrid_inspect::Requirements;
use tower_http::csrf::CsrfLayer;

use crate::access::{self, Access, Decide, Identify};
use crate::actions::{self, ACTION_PATH};
use crate::assets;
use crate::collector::Collector;
use crate::headers;
use crate::hosts::Hosts;
use crate::live;
use crate::login;
use crate::metrics::{self, FleetMetrics, Scrapes};
use crate::pages;
use crate::search::Searches;
use crate::throttle::Throttle;
use crate::token::AccessToken;

/// A web console for the servers of a client, which only reads unless it
/// [operates](Console::operate).
/// [`router`](Console::router) makes it a router.
///
/// Without [`access`](Console::access) and [`token`](Console::token), it refuses every request.
#[must_use = "it is served by its router"]
#[derive(Clone)]
pub struct Console {
    client: Client,
    title: String,
    access: Decide,
    identify: Identify,
    operates: bool,
    token: Option<AccessToken>,
    hosts: Hosts,
    requirements: Option<Requirements>,
    metrics: Option<FleetMetrics>,
}

/// State shared by all requests.
pub(crate) struct App {
    pub(crate) client: Client,
    pub(crate) title: String,
    pub(crate) access: Decide,
    pub(crate) identify: Identify,
    /// Whether there are actions.
    pub(crate) operates: bool,
    pub(crate) token: Option<AccessToken>,
    pub(crate) hosts: Hosts,
    /// Wrong tokens of requests that may not read.
    pub(crate) throttle: Throttle,
    /// Wrong tokens of requests that may read: those of the application, or guesses.
    pub(crate) reader_throttle: Throttle,
    pub(crate) collector: Arc<Collector>,
    pub(crate) searches: Searches,
    /// Whether the settings can be checked.
    pub(crate) has_doctor: bool,
    /// The metrics, if the console has them.
    pub(crate) scrapes: Option<Scrapes>,
}

impl Console {
    /// Creates a console that reads with the connections of this client. Of a `Grid`, pass
    /// `grid.client()`.
    ///
    /// It shows the objects of the client's namespace.
    pub fn new(client: &Client) -> Self {
        Console {
            client: client.clone(),
            title: "redgrid".to_owned(),
            access: Arc::new(|_| Access::None),
            identify: Arc::new(|_| None),
            operates: false,
            token: None,
            hosts: Hosts::default(),
            requirements: None,
            metrics: None,
        }
    }

    /// Sets the title of the pages: `redgrid` by default. Name the deployment, so that operators do
    /// not mistake one for another.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets which requests may see the console: the closure decides for each request, by its
    /// headers, or by what the application has put into its extensions.
    ///
    /// The default refuses every request. A request that the closure refuses can still log in, if a
    /// [`token`](Console::token) is set.
    pub fn access(mut self, access: impl Fn(&Parts) -> Access + Send + Sync + 'static) -> Self {
        self.access = Arc::new(access);
        self
    }

    /// Adds actions: taking a lock away from a holder, deleting objects, setting their lifetimes,
    /// giving permits back, pausing queues, redriving and removing dead letters.
    ///
    /// A request may act if the [`access`](Console::access) closure permits it with
    /// [`Access::Operate`], or if it has the [`token`](Console::token), even if the closure permits
    /// only [`Access::Read`]. For others, and without this call, the routes of actions do not
    /// exist. Each action shows a page that asks for the name of the object and a reason, and is
    /// recorded in the stream `redgrid_audit` before it is begun.
    ///
    /// If the closure permits [`Access::Read`], another `Authorization: Bearer` than the token does
    /// not matter. After five of them from one address (that of a proxy, too) within a minute, no
    /// token in this header is accepted for the rest of it, so that readers cannot guess the token.
    /// A user that has logged in may act all the same.
    pub fn operate(mut self) -> Self {
        self.operates = true;
        self
    }

    /// Sets how to find the user of a request, for the record of actions: for example the user that
    /// a proxy has authenticated.
    ///
    /// Without a name, the record has the words "the access token" or "the application's user". It
    /// always has the address of the peer, if the router is served with
    /// `into_make_service_with_connect_info::<SocketAddr>()`.
    pub fn identify(mut self, identify: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.identify = Arc::new(identify);
        self
    }

    /// Sets the token for the login, and for scripts that send `Authorization: Bearer`. Without it,
    /// there is no login.
    ///
    /// After five wrong tokens from one address in a minute, further wrong ones are answered with
    /// 429. The right token is always accepted. For the addresses, serve the router with
    /// `into_make_service_with_connect_info::<SocketAddr>()`; otherwise all of them are counted
    /// together, as they are behind a proxy.
    pub fn token(mut self, token: AccessToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Also serves this host name; leave the port out. May be called several times.
    ///
    /// Other names than `localhost` are refused otherwise, so that a page of an attacker cannot
    /// read the console through a name of its own (DNS rebinding). IP addresses are always
    /// accepted.
    pub fn allow_host(mut self, name: impl AsRef<str>) -> Self {
        self.hosts.allow(name.as_ref());
        self
    }

    /// Serves requests with any `Host`. Use it if the application checks the host itself.
    pub fn allow_any_host(mut self) -> Self {
        self.hosts.allow_any();
        self
    }

    /// Sets the configuration of the client. With it, the console can check the settings of the
    /// servers, as `redgrid doctor` does.
    ///
    /// The checks connect to each server with the credentials of the configuration. They only read,
    /// so the permissions inside scripts are left to `redgrid doctor`.
    pub fn config(mut self, config: &Config) -> Self {
        self.requirements = Some(Requirements::of(config));
        self
    }

    /// Serves metrics of the deployment for Prometheus, at `metrics`. Requests need the same access
    /// as pages, such as `Authorization: Bearer`.
    ///
    /// While Prometheus scrapes, the console reads the servers as with the overview open.
    pub fn metrics(mut self, metrics: FleetMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns the router. Mount it with `nest_service` or `nest`, or serve it alone.
    ///
    /// All routers that one call returns, and their clones, share one collector.
    pub fn router(self) -> Router {
        let has_token = self.token.is_some();
        let app = Arc::new(App {
            collector: Collector::new(&self.client, self.requirements.clone()),
            has_doctor: self.requirements.is_some(),
            scrapes: self.metrics.map(Scrapes::new),
            client: self.client,
            title: self.title,
            access: self.access,
            identify: self.identify,
            operates: self.operates,
            token: self.token,
            hosts: self.hosts,
            throttle: Throttle::default(),
            reader_throttle: Throttle::default(),
            searches: Searches::default(),
        });
        let mut pages = Router::new()
            .route("/", get(pages::overview))
            // Its own path: a router that is nested with `nest` has no path that ends with a slash.
            .route("/overview", get(pages::overview))
            .route("/locks", get(pages::locks))
            .route("/lock", get(pages::lock))
            .route("/contention", get(pages::contention))
            .route("/queues", get(pages::queues))
            .route("/queue", get(pages::queue))
            .route("/synchronizers", get(pages::synchronizers))
            .route("/limiters", get(pages::limiters))
            .route("/streams", get(pages::streams))
            .route("/clients", get(pages::clients))
            .route("/objects", get(pages::objects))
            .route("/doctor", get(pages::doctor))
            .route("/events", get(pages::events))
            .route("/live", get(live::stream))
            .route("/metrics", get(metrics::serve));
        if app.operates {
            let action = get(actions::confirm).post(actions::submit).layer(DefaultBodyLimit::max(actions::MAX_BODY));
            pages = pages.route(ACTION_PATH, action);
        }
        let pages = pages
            .fallback(pages::other)
            .method_not_allowed_fallback(pages::not_found)
            .layer(from_fn_with_state(Arc::clone(&app), access::check_access));
        let mut open = Router::new().route("/assets/{name}", get(assets::serve));
        if has_token {
            let login = get(login::form).merge(post(login::submit).layer(DefaultBodyLimit::max(login::MAX_BODY)));
            open = open.route("/login", login);
        }
        let open = open.method_not_allowed_fallback(pages::not_found);
        pages
            .merge(open)
            .layer(from_fn(access::leave_mount_path))
            .layer(CsrfLayer::new())
            .layer(from_fn_with_state(Arc::clone(&app), access::check_host))
            .layer(from_fn(headers::add))
            .with_state(app)
    }
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("title", &self.title).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}
