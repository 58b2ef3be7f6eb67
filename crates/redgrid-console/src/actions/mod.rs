//! The routes of actions: a page that asks for confirmation, and the form that it sends.
//!
//! They exist only if the console operates, and answer only requests that may act.

mod confirm;
mod ended;
mod intent;

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use maud::Markup;
use redgrid_inspect::{Actions, InvalidReason, Reason};

pub(crate) use self::intent::link;
use self::intent::{Intent, InvalidIntent};
use crate::access::Permission;
use crate::console::App;
use crate::pages::{Page, no_such_page, problem, unwatched};
use crate::query::Query;
use crate::text::visible_bytes;

/// The path of both routes.
pub(crate) const ACTION_PATH: &str = "/action";

/// Largest body of a form: 64 KiB. A name has at most 1,024 bytes. A control character takes 5
/// characters in the field of the name, and 12 where it is typed as `\u{1b}`: 17 KiB together.
pub(crate) const MAX_BODY: usize = 64 << 10;

/// The operator's input in the form.
#[derive(Debug, Default)]
struct Written<'a> {
    typed: &'a str,
    reason: &'a str,
    /// The error in the input.
    fault: Option<String>,
}

/// Shows what an action will do, and the form.
pub(crate) async fn confirm(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let query = Query::read(uri.query());
    match Intent::of(&query) {
        Ok(intent) => ask(&app, &intent, &Written::default()).await,
        Err(invalid) => bad(&invalid),
    }
}

/// Does the action of a form.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    Extension(permission): Extension<Permission>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let Some(operator) = permission.operator else { return no_such_page(&uri) };
    let Ok(text) = std::str::from_utf8(&body) else { return bad(&InvalidIntent::NotAForm) };
    let form = Query::read(Some(text));
    let intent = match Intent::of(&form) {
        Ok(intent) => intent,
        Err(invalid) => return bad(&invalid),
    };
    let (typed, reason) = (form.get("typed"), form.get("reason"));
    let fault = |fault: String| Written { typed, reason, fault: Some(fault) };
    if typed.trim() != visible_bytes(intent.object()).trim() {
        return ask(&app, &intent, &fault("The typed name is not that of the object. Nothing has changed.".into()))
            .await;
    }
    let reason = match Reason::new(reason) {
        Ok(reason) => reason,
        Err(InvalidReason { length, .. }) => {
            let text = format!("A reason has 1 to 200 characters, and this one has {length}. Nothing has changed.");
            return ask(&app, &intent, &fault(text)).await;
        }
    };
    let Some(action) = intent.complete() else {
        return ask(&app, &intent, &fault("A field is missing or cannot be read. Nothing has changed.".into())).await;
    };
    let actions = Actions::new(&app.collector.inspector, operator);
    let result = action.run(&actions, &reason).await;
    let (status, main) = ended::page(&intent, &result);
    shown(&app, status, ended::TITLE, &main).await
}

/// Shows the form, or why the action is not possible any more.
async fn ask(app: &Arc<App>, intent: &Intent, written: &Written<'_>) -> Response {
    let (status, main) = match confirm::page(app, intent, written).await {
        Ok(main) if written.fault.is_some() => (StatusCode::UNPROCESSABLE_ENTITY, main),
        Ok(main) => (StatusCode::OK, main),
        Err((status, main)) => (status, main),
    };
    shown(app, status, intent.title(), &main).await
}

/// Makes a page with the navigation.
async fn shown(app: &Arc<App>, status: StatusCode, title: &str, main: &Markup) -> Response {
    let mut response = unwatched(app, Page::Action, None, title, main).await;
    *response.status_mut() = status;
    response
}

fn bad(invalid: &InvalidIntent) -> Response {
    problem(StatusCode::BAD_REQUEST, "Not an action", &invalid.to_string())
}
