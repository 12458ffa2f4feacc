//! Reading a request's body: within its limit, within its time, and within what all requests together may hold.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::app::App;
use crate::http::problem::{Kind, Problem};

/// What bodies that are being read and stored may hold together, unless one alone may be larger.
const BODIES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The budget is counted in these units, because a semaphore counts to less than 4 GiB.
const UNIT_BYTES: usize = 1024;
/// How much of a body over its limit is read and thrown away, so that its sender gets to read the answer.
const DISCARDED_BYTES_MAX: usize = 8 * 1024 * 1024;
const DISCARDED_FOR: Duration = Duration::from_secs(1);

/// What all bodies together may hold in memory.
#[derive(Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

impl Budget {
    /// A budget in which a body of this size fits.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(units(body_bytes_max.max(BODIES_BYTES_MAX)))))
    }

    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = u32::try_from(units(bytes)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.0).acquire_many_owned(units).await;
        room.map_err(|_| {
            Problem::new(Kind::Unavailable, "the server is stopping; send the request again later")
        })
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

/// Reads a body of at most `limit` bytes; the permit holds its room in the budget.
///
/// A body that says it is longer is refused before any of it is kept.
pub(super) async fn read(
    app: &App,
    mut body: Body,
    limit: usize,
) -> Result<(Vec<u8>, OwnedSemaphorePermit), Problem> {
    let announced = body.size_hint();
    if announced.lower() > limit as u64 {
        discard(&mut body).await;
        return Err(too_large(limit));
    }
    let expected = announced.exact().and_then(|bytes| usize::try_from(bytes).ok());
    let room = app.bodies.take(expected.unwrap_or(limit)).await?;
    let mut bytes = Vec::with_capacity(expected.unwrap_or(0));
    loop {
        let frame = timeout(app.limits.body_timeout, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| Problem::new(Kind::Malformed, "the body ended before it was complete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            discard(&mut body).await;
            return Err(too_large(limit));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, room))
}

/// Throws away what comes of a body that is refused, up to a bound. Closing a connection on bytes that were not read
/// makes the sender's system drop the answer as well.
async fn discard(body: &mut Body) {
    let until = Instant::now() + DISCARDED_FOR;
    let mut discarded = 0;
    while discarded < DISCARDED_BYTES_MAX {
        let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await else { return };
        discarded += frame.into_data().map_or(0, |data| data.len());
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the body may have {limit} bytes; publish smaller batches, or a reference to large data"),
    )
}

fn too_slow() -> Problem {
    Problem::new(Kind::BodyTimeout, "the body came too slowly; send the request again, with the same ids")
}
