//! A headless Chromium, for tests of web pages.
//!
//! The browser is driven through chromedriver, with the commands of W3C WebDriver. Both programs
//! must be on this machine; [`BrowserPrograms::find_or_skip`] finds them.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_testkit::browser::{Browser, BrowserPrograms};
//!
//! let browser = Browser::start(&BrowserPrograms::find()?).await?;
//! browser.go("http://127.0.0.1:7979/locks").await?;
//! browser.until_shown("#locks tr", "orders:42").await?; // the row appears without a reload
//! browser.click("#locks a").await?;
//! # Ok(()) }
//! ```

mod driver;
mod error;
mod programs;

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::driver::Driver;
pub use self::{
    error::BrowserError,
    programs::{BROWSER_VARIABLE, BrowserPrograms, DRIVER_VARIABLE, NoBrowser},
};

/// A browser of its own, with an empty profile and one window.
///
/// It ends when this value is dropped, and when this process ends, even by `kill -9`. CSS selectors
/// name elements; if several match, the first one is used.
#[derive(Debug)]
pub struct Browser {
    driver: Driver,
    session: String,
}

/// A window or tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tab(String);

/// A key that is not a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// Moves the focus on.
    Tab,
    /// Follows a link, sends a form.
    Enter,
}

impl Key {
    /// Returns the code point of WebDriver.
    fn code(self) -> &'static str {
        match self {
            Key::Tab => "\u{e004}",
            Key::Enter => "\u{e007}",
        }
    }
}

impl Browser {
    /// Starts the browser.
    ///
    /// # Errors
    ///
    /// [`BrowserError`]; no process is left running.
    pub async fn start(programs: &BrowserPrograms) -> Result<Self, BrowserError> {
        let driver = Driver::start(programs.driver()).await?;
        let profile = format!("--user-data-dir={}", driver.profile().display());
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([profile.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "binary": programs.browser().to_string_lossy(), "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": LIMIT_MS, "pageLoad": LIMIT_MS },
        } } });
        let started = driver.send(Method::POST, "session", Some(&wanted)).await?;
        let session = started["sessionId"].as_str().unwrap_or_default();
        Ok(Self { session: format!("session/{session}"), driver })
    }

    /// Loads a page, and returns when it is loaded.
    ///
    /// # Errors
    ///
    /// [`BrowserError`], for example if nothing listens there.
    pub async fn go(&self, url: &str) -> Result<(), BrowserError> {
        self.post("url", json!({ "url": url })).await.map(drop)
    }

    /// Goes one page back.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn back(&self) -> Result<(), BrowserError> {
        self.post("back", json!({})).await.map(drop)
    }

    /// Returns the address of the page.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn url(&self) -> Result<String, BrowserError> {
        Ok(text_of(self.get("url").await?))
    }

    /// Runs a script as the body of a function, and returns its result, or the result of its
    /// promise. The content security policy of the page does not restrict it.
    ///
    /// # Errors
    ///
    /// [`BrowserError`], for example if the script throws.
    pub async fn execute(&self, script: &str, arguments: &[Value]) -> Result<Value, BrowserError> {
        self.post("execute/sync", json!({ "script": script, "args": arguments })).await
    }

    /// Returns the visible text of an element; `None` if there is no such element.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn text(&self, selector: &str) -> Result<Option<String>, BrowserError> {
        let script = "return document.querySelector(arguments[0])?.innerText ?? null";
        Ok(self.execute(script, &[json!(selector)]).await?.as_str().map(str::to_owned))
    }

    /// Runs a script again and again until it returns something other than `null` and `false`, and
    /// returns that. The limit is 60 s.
    ///
    /// # Errors
    ///
    /// [`BrowserError::TimedOut`] with the text of the page, and other errors of the browser.
    pub async fn until(&self, script: &str, arguments: &[Value]) -> Result<Value, BrowserError> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.execute(script, arguments).await {
                Ok(Value::Null | Value::Bool(false)) => {}
                Ok(value) => return Ok(value),
                Err(error) if !error.is_passing() => return Err(error),
                Err(_) => {}
            }
            if Instant::now() > deadline {
                let url = self.url().await?;
                let text = self.text("body").await?.unwrap_or_default().chars().take(LONGEST_TEXT).collect();
                let expected = format!("{script} {}", json!(arguments));
                return Err(BrowserError::TimedOut { waited: LIMIT, expected, url, text });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until an element with this selector contains a text. The limit is 60 s.
    ///
    /// # Errors
    ///
    /// As for [`until`](Self::until).
    pub async fn until_shown(&self, selector: &str, text: &str) -> Result<(), BrowserError> {
        self.until(&format!("return {CONTAINS}"), &[json!(selector), json!(text)]).await.map(drop)
    }

    /// Waits until no element with this selector contains a text. The limit is 60 s.
    ///
    /// # Errors
    ///
    /// As for [`until`](Self::until).
    pub async fn until_gone(&self, selector: &str, text: &str) -> Result<(), BrowserError> {
        self.until(&format!("return !{CONTAINS}"), &[json!(selector), json!(text)]).await.map(drop)
    }

    /// Clicks an element as soon as it exists. If the click loads a page, returns when it is
    /// loaded.
    ///
    /// # Errors
    ///
    /// [`BrowserError::Failed`] if there is no such element for 60 s, or if it cannot be clicked.
    pub async fn click(&self, selector: &str) -> Result<(), BrowserError> {
        self.on_element(selector, "click", &json!({})).await
    }

    /// Empties a field, and types a text into it.
    ///
    /// # Errors
    ///
    /// As for [`click`](Self::click).
    pub async fn fill(&self, selector: &str, text: &str) -> Result<(), BrowserError> {
        self.on_element(selector, "clear", &json!({})).await?;
        self.on_element(selector, "value", &json!({ "text": text })).await
    }

    /// Presses a key, wherever the focus is.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn press(&self, key: Key) -> Result<(), BrowserError> {
        let strokes = ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.code() }));
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("actions", json!({ "actions": [keyboard] })).await.map(drop)
    }

    /// Types a text, wherever the focus is.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn type_text(&self, text: &str) -> Result<(), BrowserError> {
        let focused = self.get("element/active").await?;
        self.post(&format!("element/{}/value", id_of(&focused)), json!({ "text": text })).await.map(drop)
    }

    /// Opens a tab, sends further commands to it, and returns it. The other tabs stay visible.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn open_tab(&self) -> Result<Tab, BrowserError> {
        let opened = self.post("window/new", json!({ "type": "tab" })).await?;
        let tab = Tab(text_of(opened["handle"].clone()));
        self.switch_to(&tab).await?;
        Ok(tab)
    }

    /// Returns the tab to which commands go.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn tab(&self) -> Result<Tab, BrowserError> {
        Ok(Tab(text_of(self.get("window").await?)))
    }

    /// Sends further commands to this tab.
    ///
    /// # Errors
    ///
    /// [`BrowserError`], for example if it was closed.
    pub async fn switch_to(&self, tab: &Tab) -> Result<(), BrowserError> {
        self.post("window", json!({ "handle": tab.0 })).await.map(drop)
    }

    /// Sends further commands to the frame with this index, or with `None` to the page itself.
    ///
    /// # Errors
    ///
    /// [`BrowserError`] if there is no such frame.
    pub async fn enter_frame(&self, index: Option<u32>) -> Result<(), BrowserError> {
        self.post("frame", json!({ "id": index })).await.map(drop)
    }

    /// Hides the window: for the page, it is like a hidden tab.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn minimize(&self) -> Result<(), BrowserError> {
        self.post("window/minimize", json!({})).await.map(drop)
    }

    /// Shows the window again, with this size in pixels.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn restore(&self, width: u32, height: u32) -> Result<(), BrowserError> {
        self.post("window/rect", json!({ "width": width, "height": height })).await.map(drop)
    }

    /// Sets a cookie of the page's host, for all its paths.
    ///
    /// # Errors
    ///
    /// [`BrowserError`], for example if no page is loaded.
    pub async fn set_cookie(&self, name: &str, value: &str) -> Result<(), BrowserError> {
        let cookie = json!({ "name": name, "value": value, "path": "/", "httpOnly": true });
        self.post("cookie", json!({ "cookie": cookie })).await.map(drop)
    }

    /// Sends a command of the Chrome DevTools Protocol, such as `Emulation.setEmulatedMedia`.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn devtools(&self, command: &str, parameters: Value) -> Result<Value, BrowserError> {
        self.post("goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// Returns what the page has written to the console since the last call: for example requests
    /// that failed, and violations of the content security policy.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn log(&self) -> Result<Vec<String>, BrowserError> {
        let entries = self.post("se/log", json!({ "type": "browser" })).await?;
        let entries = entries.as_array().cloned().unwrap_or_default();
        Ok(entries.into_iter().map(|mut entry| text_of(entry["message"].take())).collect())
    }

    /// Returns a picture of the visible part of the page, as PNG.
    ///
    /// # Errors
    ///
    /// [`BrowserError`].
    pub async fn screenshot(&self) -> Result<Vec<u8>, BrowserError> {
        let encoded = text_of(self.get("screenshot").await?);
        STANDARD
            .decode(encoded)
            .map_err(|error| BrowserError::NoAnswer { command: "screenshot".to_owned(), reason: error.to_string() })
    }

    /// Sends a command for an element. Tries again while the page changes, for at most 60 s.
    async fn on_element(&self, selector: &str, command: &str, body: &Value) -> Result<(), BrowserError> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let attempt = async {
                let found = self.post("element", json!({ "using": "css selector", "value": selector })).await?;
                self.post(&format!("element/{}/{command}", id_of(&found)), body.clone()).await
            };
            match attempt.await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_passing() && Instant::now() < deadline => tokio::time::sleep(POLL).await,
                Err(BrowserError::Failed { error, message, .. }) => {
                    return Err(BrowserError::Failed { command: format!("{command} {selector}"), error, message });
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn get(&self, command: &str) -> Result<Value, BrowserError> {
        self.driver.send(Method::GET, &format!("{}/{command}", self.session), None).await
    }

    async fn post(&self, command: &str, body: Value) -> Result<Value, BrowserError> {
        self.driver.send(Method::POST, &format!("{}/{command}", self.session), Some(&body)).await
    }
}

/// Returns the id of an element: the only value of its reference.
fn id_of(element: &Value) -> &str {
    element.as_object().and_then(|reference| reference.values().next()?.as_str()).unwrap_or_default()
}

fn text_of(value: Value) -> String {
    if let Value::String(text) = value { text } else { String::new() }
}

/// Whether an element with the selector of the first argument contains the text of the second.
const CONTAINS: &str =
    "[...document.querySelectorAll(arguments[0])].some((one) => one.innerText.includes(arguments[1]))";

/// Characters of a page in an error.
const LONGEST_TEXT: usize = 4_000;

/// Arguments of the browser. The sandbox does not work for root, and shared memory is small in
/// containers.
const ARGUMENTS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--lang=en-US",
    "--window-size=1200,900",
];

/// Time limit of waiting, of a script, and of loading a page: 60 s, long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// [`LIMIT`] in milliseconds.
const LIMIT_MS: u64 = 60_000;

/// Poll interval: 50 ms. Each poll is a request to the driver, and one to the browser.
const POLL: Duration = Duration::from_millis(50);
