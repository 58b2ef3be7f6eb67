//! Shows multimaps: the tags and events of each post, and its current readers.
//!
//! Run it with `cargo run -p redgrid-examples --example tags_multimap`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let text = |word: &str| word.to_owned();

    // Each key has a set: a tag is in it only once.
    let tags = grid.set_multimap::<String, String>("redgrid-example:tags");
    println!("new: {}", tags.insert_many("post 1", &[text("rust"), text("redis"), text("rust")]).await?);
    tags.insert("post 2", &text("redis")).await?;
    println!("post 2 is about redis: {}", tags.contains_entry("post 2", &text("redis")).await?);
    println!("{} tags of {} posts", tags.len().await?, tags.key_len().await?);

    // The posts of each tag, with one page in memory at a time.
    let (mut pages, mut posts) = (tags.keys(), BTreeMap::<String, Vec<String>>::new());
    while let Some(post) = pages.try_next().await? {
        for tag in tags.get_all(&post).await? {
            posts.entry(tag).or_default().push(post.clone());
        }
    }
    println!("posts about rust: {:?}", posts["rust"]);

    // Each key has a list: in order, and with repetitions.
    let log = grid.list_multimap::<String, String>("redgrid-example:log");
    for event in ["written", "read", "read"] {
        log.insert("post 1", &text(event)).await?;
    }
    println!("post 1: {:?}", log.get_all("post 1").await?);
    println!("closed with {:?}", log.remove_all("post 1").await?);

    // Each key has a lifetime: the readers of a post expire together if no new reader is added.
    let readers = grid.set_multimap_cache::<String, String>("redgrid-example:readers");
    for reader in ["ann", "bob"] {
        readers.insert("post 1", &text(reader)).await?;
        readers.expire_key("post 1", Duration::from_millis(200)).await?;
    }
    println!("{} readers: {:?}", readers.values_len("post 1").await?, readers.key_lifetime("post 1").await?);
    while readers.contains_key("post 1").await? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("post 1 has no readers; {} posts are read", readers.key_len().await?);

    // The whole multimap can have a lifetime too.
    let all = tags.object();
    all.expire_in(Duration::from_secs(3600)).await?;
    println!("tags live for {:?}", all.lifetime().await?);
    println!("{} posts removed", tags.clear().await?);
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
