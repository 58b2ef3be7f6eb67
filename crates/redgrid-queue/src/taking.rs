//! One call that waits: in one line, or in several.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::{Client, Name};

use crate::line::{Left, Line, Place, Source};

/// An element of one of these lines, and which: of the first that has one when it is asked, else of the first that gets one. As long as it takes
/// where no time is given; zero looks once.
pub(crate) async fn take<S: Source>(
    client: &Client,
    lines: &[(Name, Arc<Line<S>>)],
    within: Option<Duration>,
) -> Result<Option<(usize, Bytes)>, ObjectError> {
    let until = within.map_or(Instant::MAX, |within| client.clock().now() + within);
    let looks = within.is_some_and(|within| within.is_zero());
    if lines.len() > 1 || looks {
        for (at, line) in lines.iter().enumerate() {
            let mut one = [(at, line.1.enter(client, true, Instant::MAX))];
            if let Some(found) = given(client, lines, &mut one.each_mut().map(Some)).await? {
                return Ok(Some(found));
            }
        }
    }
    if looks {
        return Ok(None);
    }
    let mut places: Vec<_> =
        lines.iter().enumerate().map(|(at, (_, line))| (at, line.enter(client, false, until))).collect();
    let mut places: Vec<_> = places.iter_mut().map(Some).collect();
    tokio::select! {
        biased;
        found = given(client, lines, &mut places) => return found,
        () = client.clock().wait_until(until) => {}
    }
    if places.iter().flatten().all(|place| place.1.has_contact()) {
        return Ok(None);
    }
    // Not asked for since it came: once more, or as long as it takes to find out that nobody answers.
    places.iter_mut().flatten().for_each(|place| place.1.looks());
    given(client, lines, &mut places).await
}

/// What the first of some places is given; nothing where all have found nothing.
async fn given<S: Source>(
    client: &Client,
    lines: &[(Name, Arc<Line<S>>)],
    places: &mut [Option<&mut (usize, Place<S>)>],
) -> Result<Option<(usize, Bytes)>, ObjectError> {
    poll_fn(|cx| {
        for slot in &mut *places {
            let Some((at, place)) = slot else { continue };
            let name = &lines[*at].0;
            match place.poll_left(cx) {
                Poll::Pending => continue,
                Poll::Ready(Left::Item(item)) => return Poll::Ready(Ok(Some((*at, item)))),
                Poll::Ready(Left::Failed(source)) => return Poll::Ready(Err(ObjectError::of(name, source))),
                Poll::Ready(Left::ShuttingDown) => {
                    return Poll::Ready(Err(ObjectError::of(name, client.ended())));
                }
                Poll::Ready(Left::Nothing) => *slot = None,
            }
        }
        match places.iter().all(Option::is_none) {
            true => Poll::Ready(Ok(None)),
            false => Poll::Pending,
        }
    })
    .await
}
