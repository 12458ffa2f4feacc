//! `stdout:`: one line of JSON per event, with CloudEvents' names; for development.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt as _, stream};
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

/// Writes every event as a line of JSON.
///
/// A payload that is valid UTF-8 JSON stands under `data` as it is, any other as text under `data` or, if it is not UTF-8,
/// encoded under `data_base64`. A line that cannot be written makes the target unavailable.
///
/// The lines are written by a thread of its own, because a pipe that nobody reads blocks whoever writes: the relay must
/// still be able to time out and to stop.
#[derive(Debug)]
pub struct StdoutTarget {
    capabilities: Capabilities,
    pen: mpsc::Sender<Job>,
}

/// Lines to write, and who wants to know.
type Job = (Vec<u8>, oneshot::Sender<io::Result<()>>);

impl StdoutTarget {
    /// Writes to this process's stdout.
    ///
    /// # Errors
    /// `Unavailable` when the thread cannot be started.
    pub fn new() -> Result<Self> {
        Self::writing_to(io::stdout())
    }

    /// Writes somewhere else.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn writing_to(mut out: impl Write + Send + 'static) -> Result<Self> {
        let (pen, jobs) = mpsc::channel::<Job>();
        let work = move || {
            for (lines, done) in jobs {
                // Flushed, so that an answer means that the reader can have it. Nobody waiting any more is no mistake.
                let _ = done.send(out.write_all(&lines).and_then(|()| out.flush()));
            }
        };
        let thread = thread::Builder::new().name("stdout".to_owned()).spawn(work);
        thread
            .map_err(|error| Error::unavailable("start the thread that writes to stdout").because(error))?;
        Ok(Self { capabilities: Capabilities::sink(), pen })
    }

    /// Writes the whole burst.
    async fn write(&self, burst: &[Parcel]) -> io::Result<()> {
        let mut lines = Vec::new();
        for parcel in burst {
            write_line(&mut lines, parcel)?;
        }
        let (done, written) = oneshot::channel();
        let gone = || io::Error::other("the thread that writes has ended");
        self.pen.send((lines, done)).map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }
}

impl Target for StdoutTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let count = burst.len();
        let written = async move {
            self.write(&burst).await.map_err(|error| {
                let message = format!("stdout cannot be written: {error}");
                DeliverError::new(DeliverKind::Unavailable, "stdout", message)
            })
        };
        let answers = move |written: Result<(), DeliverError>| {
            stream::iter((0..count).map(move |index| match &written {
                Ok(()) => Answer::delivered(index),
                Err(error) => Answer::failed(index, error.clone()),
            }))
        };
        Box::pin(stream::once(written).flat_map(answers))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

fn write_line(out: &mut Vec<u8>, parcel: &Parcel) -> io::Result<()> {
    let envelope = &parcel.envelope;
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| line.insert(name.to_owned(), value);
    put("specversion", json!("1.0"));
    put("id", json!(envelope.id));
    put("source", json!(envelope.source));
    put("type", json!(envelope.event_type));
    put("topic", json!(envelope.topic));
    for (name, value) in [("key", &envelope.key), ("subject", &envelope.subject)] {
        if let Some(text) = value {
            put(name, json!(text));
        }
    }
    put("time", json!(envelope.occurred_at.unwrap_or(parcel.stored_at).to_string()));
    put("datacontenttype", json!(envelope.content_type));
    put("version", json!(envelope.version));
    if !envelope.headers.is_empty() {
        put("headers", json!(envelope.headers));
    }
    put("attempt", json!(parcel.attempt));
    if parcel.replay {
        put("replay", json!(true));
    }
    let attributes = serde_json::to_vec(&line)?;
    out.extend_from_slice(&attributes[..attributes.len() - 1]);
    write_payload(out, &envelope.payload)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

fn write_payload(out: &mut Vec<u8>, payload: &[u8]) -> io::Result<()> {
    // A line break may only stand between tokens of JSON, where a space means the same: the line stays one line.
    if let Ok(raw) = serde_json::from_slice::<&serde_json::value::RawValue>(payload) {
        out.extend_from_slice(b",\"data\":");
        out.extend(raw.get().bytes().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }));
        return Ok(());
    }
    match std::str::from_utf8(payload) {
        Ok(text) => {
            out.extend_from_slice(b",\"data\":");
            serde_json::to_writer(out, text)?;
        }
        Err(_) => {
            out.extend_from_slice(b",\"data_base64\":\"");
            out.extend_from_slice(STANDARD.encode(payload).as_bytes());
            out.push(b'"');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_core::envelope::Envelope;
    use posthaste_core::time::Timestamp;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn parcel(payload: &[u8]) -> Parcel {
        let mut envelope = Envelope::new("order.placed", payload);
        envelope.id = "1".to_owned();
        Parcel::new(Arc::new(envelope), 1, false, Timestamp::default())
    }

    #[tokio::test]
    async fn every_event_is_one_line_of_json() {
        let page = Page::default();
        let target = StdoutTarget::writing_to(page.clone()).unwrap();
        let burst =
            vec![parcel(b"{\"a\":\n\"q\\\"q\"}"), parcel(b"plain \"text\""), parcel(&[0xff, 0, 1, 2])];
        let answers: Vec<_> = target.deliver(burst).collect().await;
        assert!(answers.iter().all(|answer| answer.result.is_ok()));
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["data"], json!({"a": "q\"q"}));
        assert_eq!(lines[0]["type"], "order.placed");
        assert_eq!(lines[1]["data"], "plain \"text\"");
        assert_eq!(lines[2]["data_base64"], "/wABAg==");
    }

    #[tokio::test]
    async fn a_line_that_cannot_be_written_makes_the_target_unavailable() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let target = StdoutTarget::writing_to(Broken).unwrap();
        let answers: Vec<_> = target.deliver(vec![parcel(b"{}"), parcel(b"{}")]).collect().await;
        let kinds: Vec<_> = answers.into_iter().map(|answer| answer.result.unwrap_err().kind).collect();
        assert_eq!(kinds, [DeliverKind::Unavailable; 2]);
    }
}
