//! A client answers questions about itself on every topology.

use std::future::poll_fn;
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::report::{REPLY_CHANNEL_PREFIX, client_channel, parse_answer, question};
use redgrid_core::{ChannelSelector, PubSubEvent};
use redgrid_locks::Lock;
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;

clauses!["reports"; a_client_answers_another_process];

/// In a cluster, the question, the subscription of the answer and the client's own subscription may
/// be at different nodes.
async fn a_client_answers_another_process(on: Fixture) {
    let (client, asker) = (on.client().await, on.client().await);
    let guard = Lock::new(&client, &on.name).acquire().label("contract").await.unwrap();
    let reply_channel = format!("{REPLY_CHANNEL_PREFIX}{}", asker.id());
    let answers = asker.subscribe(ChannelSelector::Plain(reply_channel.clone().into()), 8).await.unwrap();
    let answer = async {
        loop {
            // The client may not be subscribed yet.
            let ask = asker.command("PUBLISH").arg(client_channel(client.id())).arg(question(&reply_channel));
            ask.query::<u64>().await.unwrap();
            let next = tokio::time::timeout(Duration::from_millis(500), poll_fn(|cx| answers.poll_next(cx)));
            if let Ok(Some(PubSubEvent::Message { payload, .. })) = next.await {
                return payload;
            }
        }
    };
    let payload = tokio::time::timeout(SOON, answer).await.unwrap();
    let report = parse_answer(&payload).unwrap();
    assert_eq!(report.id, client.id());
    let [held] = &report.held[..] else { panic!("{report:?}") };
    assert_eq!((&held.name, held.label.as_deref()), (&on.name, Some("contract")));
    guard.release().await.unwrap();
}
