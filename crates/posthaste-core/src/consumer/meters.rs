//! A consumer's counters, looked up once.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::telemetry::{label, metric};

pub(super) struct Meters {
    pub(super) handled: Counter,
    pub(super) duplicate: Counter,
    pub(super) ignored: Counter,
    pub(super) retry: Counter,
    pub(super) later: Counter,
    pub(super) dead: Counter,
    pub(super) released: Counter,
    pub(super) panics: Counter,
    pub(super) receipt_errors: Counter,
    pub(super) feed_errors: Counter,
    pub(super) in_flight: Gauge,
    pub(super) ready: Gauge,
    seconds: Histogram,
}

impl Meters {
    pub(super) fn of(consumer: &str) -> Self {
        let name = consumer.to_owned();
        let handled = |outcome: &'static str| counter!(metric::CONSUMED_TOTAL, label::CONSUMER => name.clone(), label::OUTCOME => outcome);
        Self {
            handled: handled("handled"),
            duplicate: handled("duplicate"),
            ignored: handled("ignored"),
            retry: handled("retry"),
            later: handled("later"),
            dead: handled("dead"),
            released: handled("released"),
            panics: counter!(metric::HANDLER_PANICS_TOTAL, label::CONSUMER => name.clone()),
            receipt_errors: counter!(metric::RECEIPT_ERRORS_TOTAL, label::CONSUMER => name.clone()),
            feed_errors: counter!(metric::FEED_ERRORS_TOTAL, label::CONSUMER => name.clone()),
            in_flight: gauge!(metric::CONSUMER_IN_FLIGHT, label::CONSUMER => name.clone()),
            ready: gauge!(metric::CONSUMER_READY, label::CONSUMER => name.clone()),
            seconds: histogram!(metric::HANDLE_SECONDS, label::CONSUMER => name),
        }
    }

    pub(super) fn took(&self, span: Duration) {
        self.seconds.record(span.as_secs_f64());
    }
}
