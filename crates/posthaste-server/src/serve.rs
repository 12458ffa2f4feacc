//! The server: REST, and the configured lanes beside it.

use std::sync::Arc;

use crate::config::Config;
use crate::exit::Failure;
use crate::shutdown::Shutdown;

/// Serves until the end is asked for.
///
/// # Errors
/// When the store or the listener cannot be opened.
pub async fn run(_config: Arc<Config>, _shutdown: Shutdown) -> Result<(), Failure> {
    Err(Failure::other("serve: this build has no server"))
}
