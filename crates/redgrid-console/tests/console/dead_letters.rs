//! The dead letters of a queue: why they died, and actions on some or all of them.

use axum::http::StatusCode;
use redgrid_inspect::reliable_queue::MessageId;
use redgrid_reliable_queue::ReliableQueue;
use redgrid_reliable_queue::codecs::Text;

use crate::actions::{action_link, filled, post};
use crate::support::{Setup, get, until_shown};

type Texts = ReliableQueue<String, Text>;

/// The name of the queue, as in a link.
const JOBS: &str = "jobs%20%3Cb%3E";

/// Pushes messages that die for these reasons. Returns their ids.
async fn dead(queue: &Texts, reasons: &[&str]) -> Vec<MessageId> {
    let mut ids = Vec::new();
    for reason in reasons {
        queue.push("secret").await.expect("it is pushed");
        let message = queue.receive().await.expect("a message");
        ids.push(message.id());
        message.reject(*reason).await.expect("it was held");
    }
    ids
}

async fn counts(queue: &Texts) -> (u64, u64) {
    let counts = queue.counts().await.expect("an answer");
    (counts.ready, counts.dead)
}

/// Returns the address that the form of the list requests for these messages.
fn marked(page: &str, word: &str, ids: &[MessageId]) -> String {
    let form = page.split("<form method=\"get\" action=\"action\"").nth(1).expect("a form");
    assert!(form.contains(&format!("name=\"do\" value=\"{word}\"")), "{form}");
    let object = form.split("name=\"object\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    // A form encodes the value of its field once more.
    let object = object.expect("the object").replace('%', "%25");
    let marks: String = ids
        .iter()
        .map(|id| {
            assert!(form.contains(&format!("type=\"checkbox\" name=\"id\" value=\"{id}\"")), "{id}: {form}");
            format!("&id={id}")
        })
        .collect();
    format!("/action?object={object}{marks}&do={word}")
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_redriven_and_removed() {
    let setup = Setup::start().await;
    let queue = Texts::new(&setup.client, "jobs <b>");
    let ids = dead(&queue, &["no <i>card</i>", "late", "late", "odd"]).await;
    let path = format!("/queue?name={JOBS}&state=dead");
    let page = until_shown(&setup.console(), &path, "4 messages").await;
    assert!(page.contains("no &lt;i&gt;card&lt;/i&gt;") && !page.contains("secret"), "{page}");
    assert!(!page.contains("action?") && !page.contains("<form") && !page.contains("checkbox"), "{page}");

    let router = setup.operating();
    let page = until_shown(&router, &path, "4 messages").await;
    let ready = get(&router, &format!("/queue?name={JOBS}")).await.text;
    assert!(!ready.contains("checkbox") && !ready.contains("do=redrive"), "{ready}");
    let confirm = get(&router, &marked(&page, "redrive", &ids[..2])).await;
    assert_eq!(confirm.status, StatusCode::OK, "{}", confirm.text);
    assert!(confirm.text.contains("2 dead letters will be ready again"), "{}", confirm.text);
    assert!(confirm.text.contains(&format!("queue?name={JOBS}&amp;state=dead")), "{}", confirm.text);
    assert_eq!(counts(&queue).await, (0, 4), "a GET changes nothing");
    let done = post(&router, &filled(&confirm.text, "jobs <b>", "the cards are mended")).await;
    assert!(done.status == StatusCode::OK && done.text.contains("Look at the dead letters"), "{}", done.text);
    assert_eq!(counts(&queue).await, (2, 2));

    let confirm = get(&router, &marked(&page, "remove", &ids[2..3])).await;
    let done = post(&router, &filled(&confirm.text, "jobs <b>", "nobody needs it")).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert_eq!(counts(&queue).await, (2, 1));
    let again = post(&router, &filled(&confirm.text, "jobs <b>", "nobody needs it")).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);

    let page = get(&router, &path).await.text;
    let confirm = get(&router, &action_link(&page, "redrive")).await;
    assert!(confirm.text.contains("All dead letters of the queue will be ready again"), "{}", confirm.text);
    let done = post(&router, &filled(&confirm.text, "jobs <b>", "all of them")).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.text);
    assert_eq!(counts(&queue).await, (3, 0));
    let page = get(&router, &path).await.text;
    assert!(page.contains("0 messages") && !page.contains("do=redrive"), "{page}");
    // The form with no mark is answered clearly.
    let none = get(&router, "/action?object=jobs&do=redrive").await;
    assert!(none.status == StatusCode::BAD_REQUEST && none.text.contains("names no message"), "{}", none.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_lead_to_the_dead_letters_and_these_have_pages() {
    let setup = Setup::start().await;
    let queue = Texts::new(&setup.client, "jobs <b>");
    let reasons = ["odd"; 101];
    let ids = dead(&queue, &reasons).await;
    let router = setup.operating();
    let list = until_shown(&router, "/queues", &format!("queue?name={JOBS}&amp;state=dead\">101")).await;
    assert!(list.contains("1 queue"), "{list}");
    let first = until_shown(&router, &format!("/queue?name={JOBS}&state=dead"), "1 to 100").await;
    assert_eq!(first.matches("type=\"checkbox\"").count(), 100, "{first}");
    // The limit of one action is that of a page.
    let confirm = get(&router, &marked(&first, "redrive", &ids[..100])).await;
    assert!(confirm.text.contains("100 dead letters will be ready again"), "{}", confirm.text);
    let second = get(&router, &format!("/queue?name={JOBS}&state=dead&p=2")).await.text;
    assert!(second.contains("101 to 101") && second.matches("type=\"checkbox\"").count() == 1, "{second}");
}
