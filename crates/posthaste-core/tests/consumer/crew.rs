//! Several members together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::consumer::{Crew, Stop};
use posthaste_core::{Error, Result};
use tokio::time::sleep;

type Ended = Arc<Mutex<Vec<&'static str>>>;

fn waits(
    ended: &Ended,
    name: &'static str,
) -> impl FnOnce(Stop) -> posthaste_core::BoxFuture<'static, Result<()>> + use<> {
    let ended = Arc::clone(ended);
    move |stop| {
        Box::pin(async move {
            stop.await;
            sleep(Duration::from_secs(1)).await;
            ended.lock().unwrap().push(name);
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_is_reported_and_the_others_are_stopped_last_one_first() {
    let ended = Ended::default();
    let crew = Crew::new()
        .member("a", waits(&ended, "a"))
        .member("bad", |_| async {
            sleep(Duration::from_secs(5)).await;
            Err(Error::config("no such table"))
        })
        .member("b", waits(&ended, "b"))
        .member("c", waits(&ended, "c"));
    let error = crew.run(std::future::pending()).await.unwrap_err();
    assert_eq!(error.to_string(), "run \"bad\": no such table");
    assert_eq!(*ended.lock().unwrap(), ["c", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_and_a_stop_is_none() {
    let ended = Ended::default();
    let crew = Crew::new().member("a", waits(&ended, "a")).member("bad", |_| async { panic!("a bug") });
    let error = crew.run(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.starts_with("run \"bad\": it panicked"), "{error}");
    let crew = Crew::new().member("a", waits(&ended, "a")).member("b", waits(&ended, "b"));
    crew.run(sleep(Duration::from_secs(1))).await.unwrap();
    assert_eq!(*ended.lock().unwrap(), ["a", "b", "a"]);
}
