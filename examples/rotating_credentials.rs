//! Shows a password that changes while a lock is held: a provider supplies the current one.
//!
//! Run it with `cargo run -p redgrid-examples --example rotating_credentials`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`, as a user that may run `ACL SETUSER`.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid::config::{CredentialProvider, Credentials, Secret};
use redgrid::{Config, Grid};

const USER: &str = "redgrid-example";

/// Represents a vault, a mounted file, or the tokens of a cloud.
#[derive(Clone)]
struct Vault(Arc<Mutex<&'static str>>);

#[async_trait::async_trait]
impl CredentialProvider for Vault {
    async fn fetch(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
        let password = *self.0.lock().map_err(|_| "the vault is broken")?;
        Ok(Credentials { username: Some(USER.into()), password: Secret::new(password) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let admin = Grid::connect(url.as_str()).await?;
    let set_user = async |rules: &[&str]| {
        let mut command = admin.client().command("ACL").arg("SETUSER").arg(USER);
        for rule in rules {
            command = command.arg(rule.to_string());
        }
        command.query::<()>().await
    };
    set_user(&["reset", "on", ">monday", "~*", "&*", "+@all"]).await?;

    let vault = Vault(Arc::new(Mutex::new("monday")));
    let config = Config::from_url(&url)?.password_from(vault.clone()).credentials_interval(Duration::from_millis(200));
    let grid = Grid::connect(config).await?;
    let guard = grid.lock("redgrid-example:rotation").acquire().timeout(Duration::from_secs(5)).await?;
    println!("acquired with the password of Monday");

    // The usual order: the server accepts both passwords, the vault returns the new one, and the
    // server removes the old one. Between the last two steps, each connection must have fetched the
    // password once. This takes `credentials_interval`, by default 10 s.
    set_user(&[">tuesday"]).await?;
    *vault.0.lock().map_err(|_| "the vault is broken")? = "tuesday";
    tokio::time::sleep(Duration::from_millis(500)).await;
    set_user(&["<monday"]).await?;
    println!("the password of Monday is no longer valid");

    // The server cuts all current connections. New ones need the new password.
    admin.client().command("CLIENT").arg("KILL").arg("USER").arg(USER).query::<i64>().await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    println!("still held: {}", guard.is_held());
    guard.release().await?;
    println!("released");

    grid.shutdown(Duration::from_secs(5)).await?;
    admin.client().command("ACL").arg("DELUSER").arg(USER).query::<i64>().await?;
    admin.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
