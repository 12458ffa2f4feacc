//! Consumers on the local broker, in paused time.

mod slice;

use posthaste_core::codec::Json;
use posthaste_core::event::Event;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) order: u32,
}

impl Event for Placed {
    const TYPE: &'static str = "order.placed";
    type Codec = Json;
}
