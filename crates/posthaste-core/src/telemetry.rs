//! Every name of a metric and a span, and the names of common log fields, in one place.
//!
//! Names of metrics follow the convention of Prometheus. They are emitted where decisions are made, through the facades
//! `metrics` and `tracing`; a library user who installs neither pays next to nothing.

/// Names of metrics.
pub mod metric {
    /// Counter of settled events, by [`label::LANE`](super::label::LANE) and [`label::OUTCOME`](super::label::OUTCOME).
    pub const SETTLED_TOTAL: &str = "posthaste_settled_total";
    /// Counter of events handed to a target, by lane; retries count again.
    pub const DELIVERIES_TOTAL: &str = "posthaste_deliveries_total";
    /// Histogram of seconds from sending to answer, by lane.
    pub const DELIVER_SECONDS: &str = "posthaste_deliver_seconds";
    /// Histogram of seconds from the store's stamp to the acknowledgement, by lane; first attempts only.
    pub const LATENCY_SECONDS: &str = "posthaste_latency_seconds";
    /// Histogram of seconds that a store operation took, by lane and operation.
    pub const STORE_SECONDS: &str = "posthaste_store_seconds";
    /// Counter of store operations that failed, by lane and operation.
    pub const STORE_ERRORS_TOTAL: &str = "posthaste_store_errors_total";
    /// Counter of leases that were lost, by lane.
    pub const LEASES_LOST_TOTAL: &str = "posthaste_leases_lost_total";
    /// Counter of panics in a lane's turn, by lane.
    pub const PANICS_TOTAL: &str = "posthaste_lane_panics_total";
    /// Gauge of a lane's state: 1 active, 2 paused, retired or waiting for its target, 3 error.
    pub const LANE_STATE: &str = "posthaste_lane_state";
    /// Gauge of seconds for which neither this relay nor, as far as it knows, another one has had a lease of
    /// the lane; 0 while one has.
    pub const LANE_UNHELD_SECONDS: &str = "posthaste_lane_unheld_seconds";
    /// Gauge of events sent and not answered, by lane.
    pub const IN_FLIGHT: &str = "posthaste_in_flight";
    /// Counter of events taken in, by the way they came.
    pub const PUBLISHED_TOTAL: &str = "posthaste_published_total";
    /// Counter of requests, by route and status.
    pub const HTTP_REQUESTS_TOTAL: &str = "posthaste_http_requests_total";
    /// Histogram of seconds that a request took, by route.
    pub const HTTP_SECONDS: &str = "posthaste_http_seconds";
    /// Gauge of open connections.
    pub const HTTP_CONNECTIONS: &str = "posthaste_http_connections";
    /// Counter of idle connections that were closed for new ones, because `server.connections_max` was
    /// reached.
    pub const HTTP_CONNECTIONS_EVICTED_TOTAL: &str = "posthaste_http_connections_evicted_total";
    /// Counter of connections that were refused, because `server.connections_max` was reached and all of them
    /// were busy.
    pub const HTTP_CONNECTIONS_REFUSED_TOTAL: &str = "posthaste_http_connections_refused_total";
    /// Counter of requests without a valid key.
    pub const HTTP_UNAUTHORIZED_TOTAL: &str = "posthaste_http_unauthorized_total";
    /// Gauge of how far the log goes beyond a lane's place, by lane.
    pub const LANE_UNREAD: &str = "posthaste_lane_unread";
    /// Gauge of parked events that are not dead, by lane.
    pub const LANE_WAITING: &str = "posthaste_lane_waiting";
    /// Gauge of dead events, by lane.
    pub const LANE_DEAD: &str = "posthaste_lane_dead";
    /// Gauge of the age in seconds of the oldest event that a lane has not read.
    pub const LANE_OLDEST_UNREAD_SECONDS: &str = "posthaste_lane_oldest_unread_seconds";
    /// Gauge of the age in seconds of the oldest event that a lane has parked, that is not dead and whose time has come.
    pub const LANE_OLDEST_WAITING_SECONDS: &str = "posthaste_lane_oldest_waiting_seconds";
    /// Counter of events that a consumer answered, by consumer and outcome.
    pub const CONSUMED_TOTAL: &str = "posthaste_consumed_total";
    /// Histogram of seconds that handling an event took, with its transaction, by consumer.
    pub const HANDLE_SECONDS: &str = "posthaste_handle_seconds";
    /// Gauge of events that a consumer has fetched and not settled, by consumer.
    pub const CONSUMER_IN_FLIGHT: &str = "posthaste_consumer_in_flight";
    /// Gauge: 1 while a consumer has its feed open, else 0, by consumer.
    pub const CONSUMER_READY: &str = "posthaste_consumer_ready";
    /// Counter of panics in handlers, by consumer.
    pub const HANDLER_PANICS_TOTAL: &str = "posthaste_handler_panics_total";
    /// Counter of answers that a broker did not take, by consumer; the event is delivered again.
    pub const RECEIPT_ERRORS_TOTAL: &str = "posthaste_receipt_errors_total";
    /// Counter of feeds that failed and were opened anew, by consumer.
    pub const FEED_ERRORS_TOTAL: &str = "posthaste_feed_errors_total";
    /// Counter of events that an idempotency store had seen processed, by consumer and topic.
    pub const CONSUMER_SKIPPED_TOTAL: &str = "posthaste_consumer_skipped_total";
    /// Counter of events that the local broker dropped because no group reads them.
    pub const LOCAL_UNROUTED_TOTAL: &str = "posthaste_local_unrouted_total";
    /// Counter of dead letters that the local broker dropped because its buffer was full.
    pub const LOCAL_DEAD_DROPPED_TOTAL: &str = "posthaste_local_dead_dropped_total";
    /// Counter of connections to RabbitMQ that were made anew after a loss, by [`label::ROLE`](super::label::ROLE).
    pub const AMQP_RECONNECTS_TOTAL: &str = "posthaste_amqp_reconnects_total";
    /// Gauge: 1 while there is a connection to RabbitMQ, else 0, by role.
    pub const AMQP_CONNECTED: &str = "posthaste_amqp_connected";
    /// Gauge: 1 while RabbitMQ takes nothing from publishers because it lacks memory or disk, else 0, by role.
    pub const AMQP_BLOCKED: &str = "posthaste_amqp_blocked";
    /// Counter of rows of a foreign table whose lease was lost before their outcome came, by lane; nothing was recorded.
    pub const ROW_LEASES_LOST_TOTAL: &str = "posthaste_row_leases_lost_total";
    /// Counter of rows of a foreign table whose lease had ended and that were taken back, by lane and outcome: `pending`, `dead`.
    pub const SWEPT_TOTAL: &str = "posthaste_swept_total";
    /// Counter of rows of a foreign table that could not be understood and were set aside as dead, by lane.
    pub const SET_ASIDE_TOTAL: &str = "posthaste_set_aside_total";
    /// Counter of events that retention removed.
    pub const PRUNED_TOTAL: &str = "posthaste_pruned_total";
}

/// Names of metric labels.
pub mod label {
    /// The lane.
    pub const LANE: &str = "lane";
    /// The consumer.
    pub const CONSUMER: &str = "consumer";
    /// The topic.
    pub const TOPIC: &str = "topic";
    /// What became of an event: in a lane `delivered`, `retry`, `dead`, `behind`, `slow`, `released`; at a consumer
    /// `handled`, `duplicate`, `ignored`, `retry`, `later`, `dead`, `released`.
    pub const OUTCOME: &str = "outcome";
    /// A store operation: `acquire`, `claim`, `settle`.
    pub const OPERATION: &str = "operation";
    /// How events came: `rest`, `cli`.
    pub const VIA: &str = "via";
    /// A route's pattern.
    pub const ROUTE: &str = "route";
    /// What a connection is for: `publish`, `consume`.
    pub const ROLE: &str = "role";
    /// An HTTP status.
    pub const STATUS: &str = "status";
}

/// Names of spans.
pub mod span {
    /// One lane, as long as it is driven under one lease.
    pub const LANE: &str = "lane";
    /// One event at a consumer.
    pub const HANDLE: &str = "handle";
    /// One HTTP request.
    pub const REQUEST: &str = "request";
}

/// Names of log fields.
pub mod field {
    /// The lane.
    pub const LANE: &str = "lane";
    /// The lease's epoch.
    pub const EPOCH: &str = "epoch";
    /// The event's id.
    pub const EVENT_ID: &str = "event_id";
    /// The event's type.
    pub const EVENT_TYPE: &str = "event_type";
    /// How often delivery was tried.
    pub const ATTEMPTS: &str = "attempts";
    /// What went wrong.
    pub const ERROR: &str = "error";
    /// The consumer's name.
    pub const CONSUMER: &str = "consumer";
    /// What ties together what one request caused.
    pub const CORRELATION_ID: &str = "correlation_id";
    /// The request that an event belongs to.
    pub const REQUEST_ID: &str = "request_id";
    /// The relay's name.
    pub const RELAY: &str = "relay";
}

/// The target of log lines that are the only record of an operator's command; the binary shows them at every level.
pub const AUDIT_TARGET: &str = "posthaste::audit";

#[cfg(test)]
mod tests {
    /// Reads this file and the page: a name that is only here is a metric that no operator can find.
    #[test]
    fn every_metric_is_documented() {
        let metrics = include_str!("telemetry.rs").split("pub mod label").next().unwrap();
        let constants = metrics.lines().filter(|line| line.contains("pub const"));
        let names: Vec<_> = constants.filter_map(|line| line.split('"').nth(1)).collect();
        assert!(names.len() > 10, "{names:?}");
        let page = include_str!("../../../docs/operate.md");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name} is missing in docs/operate.md");
        }
    }
}
