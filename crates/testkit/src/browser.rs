//! A real browser without a screen: opens pages, runs scripts in them, presses keys, takes pictures.
//!
//! Spoken to in Chromium's own protocol over two pipes, so no port is taken. It ends with its value.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};
use tokio::process::Child;

use crate::podlet::tool;

const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];

/// A browser with one page.
pub struct Browser {
    _child: Child,
    _folder: TempDir,
    to: Sender,
    from: BufReader<Receiver>,
    session: Option<String>,
    last: u64,
    faults: Vec<String>,
}

impl Browser {
    /// Starts one with a window of this size.
    pub async fn start(width: u32, height: u32) -> Self {
        let program =
            PROGRAMS.into_iter().find_map(tool).expect("scripts/setup test brings a browser");
        let folder = tempfile::tempdir().expect("a folder for the browser");
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        let made = ironsail_sys::exec::async_command("mkfifo").args([&to, &from]).status().await;
        assert!(made.is_ok_and(|status| status.success()), "pipes to the browser");
        // Both ends are opened for both ways, so that nobody waits for the other to open its own.
        let pipe = |path: &Path| {
            let mut how = OpenOptions::new();
            how.read_write(true).unchecked(false);
            (how, path.to_owned())
        };
        let (how, path) = pipe(&to);
        let sender = how.open_sender(path).expect("the pipe to the browser");
        let (how, path) = pipe(&from);
        let receiver = how.open_receiver(path).expect("the pipe from the browser");
        let mut command = ironsail_sys::exec::async_command("sh");
        let script =
            "program=$1; to=$2; from=$3; shift 3; exec \"$program\" \"$@\" 3<\"$to\" 4>\"$from\"";
        command.args(["-c", script, "browser"]).arg(program).arg(&to).arg(&from);
        command.args(["--remote-debugging-pipe", "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        command.arg(format!("--window-size={width},{height}"));
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        command.env("HOME", folder.path());
        let child = command.spawn().expect("the browser starts");
        let mut browser = Self {
            _child: child,
            _folder: folder,
            to: sender,
            from: BufReader::new(receiver),
            session: None,
            last: 0,
            faults: Vec::new(),
        };
        let target = browser.send("Target.createTarget", json!({"url": "about:blank"})).await;
        let how = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.send("Target.attachToTarget", how).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.send("Page.enable", json!({})).await;
        browser.send("Runtime.enable", json!({})).await;
        browser.send("Log.enable", json!({})).await;
        browser
    }

    pub async fn open(&mut self, url: &str) {
        let answer = self.send("Page.navigate", json!({"url": url})).await;
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
    }

    /// What people prefer: `light` or `dark`.
    pub async fn prefer(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.send("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// The value of an expression in the page; a promise is waited for.
    pub async fn value(&mut self, expression: &str) -> Value {
        let how = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.send("Runtime.evaluate", how).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    pub async fn until(&mut self, expression: &str) {
        let begin = tokio::time::Instant::now();
        while self.value(expression).await != json!(true) {
            if begin.elapsed() > PATIENCE {
                let text = self.value("document.body.innerText.slice(0, 2000)").await;
                panic!("{expression} is not true; faults {:?}; the page:\n{text}", self.faults);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Presses a key, named as scripts see it: `Enter`, `ArrowRight`, `/`.
    pub async fn press(&mut self, key: &str) {
        let text = match key {
            "Enter" => "\r",
            key if key.chars().count() == 1 => key,
            _ => "",
        };
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            _ => 0,
        };
        let mut down = json!({"type": "keyDown", "key": key, "windowsVirtualKeyCode": code});
        if !text.is_empty() {
            down["text"] = text.into();
        }
        self.send("Input.dispatchKeyEvent", down).await;
        let up = json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code});
        self.send("Input.dispatchKeyEvent", up).await;
    }

    /// A picture of the window, as PNG.
    pub async fn picture(&mut self) -> Vec<u8> {
        let answer = self.send("Page.captureScreenshot", json!({"format": "png"})).await;
        let text = answer["data"].as_str().unwrap_or_default();
        base64::engine::general_purpose::STANDARD.decode(text).expect("a picture in base64")
    }

    /// Exceptions and errors of the page so far.
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    async fn send(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        self.to.write_all(&text).await.expect("the browser listens");
        let answer = tokio::time::timeout(PATIENCE, self.answer()).await;
        let mut answer = answer.unwrap_or_else(|_| panic!("the browser does not answer {method}"));
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The answer to the last message; events on the way are looked at.
    async fn answer(&mut self) -> Value {
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).await.expect("the browser speaks");
            text.pop();
            let Ok(message) = serde_json::from_slice::<Value>(&text) else { continue };
            if message["id"] == self.last {
                return message;
            }
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => {
                    self.faults.push(message["params"]["exceptionDetails"].to_string());
                }
                Some("Log.entryAdded") if message["params"]["entry"]["level"] == "error" => {
                    self.faults.push(message["params"]["entry"].to_string());
                }
                _ => {}
            }
        }
    }
}
