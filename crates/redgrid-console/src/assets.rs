//! The stylesheet, the script and the icon. Their names contain the hash of their content, so that
//! a browser can keep them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use sha1_smol::Sha1;

/// A file that is compiled in.
pub(crate) struct Asset {
    /// Its path below `assets/`.
    pub(crate) name: String,
    kind: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, kind: &'static str, content: &'static str) -> Asset {
        let hash = Sha1::from(content).digest().to_string();
        Asset { name: format!("{stem}-{}.{extension}", &hash[..12]), kind, content }
    }
}

/// The stylesheet.
pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("console", "css", "text/css; charset=utf-8", include_str!("../assets/console.css")));

/// The script.
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("console", "js", "text/javascript; charset=utf-8", include_str!("../assets/console.js"))
});

/// The icon.
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg")));

/// Answers `assets/{name}`.
pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    match [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.name == name) {
        Some(asset) => {
            let headers = [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
            (headers, asset.content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
