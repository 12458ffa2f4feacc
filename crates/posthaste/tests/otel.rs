//! Trace context travels with an event: an outbox that is told to asks the current span for it.

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::sql::{Dialect, Value};
use posthaste::trace::TRACEPARENT;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

/// The headers column of the statement that publishes one event now.
fn headers_published_now(outbox: &Outbox) -> serde_json::Value {
    let statement =
        outbox.statement(Dialect::Sqlite, Publish::raw("order.placed", "{}")).expect("it is a fine event");
    let json = statement.values.iter().find_map(|value| match value {
        Value::Text(Some(text)) if text.starts_with('{') => Some(text),
        _ => None,
    });
    serde_json::from_str(json.expect("there is a column of headers")).expect("headers are JSON")
}

#[test]
fn the_current_spans_context_becomes_the_events_headers() {
    let tracer = SdkTracerProvider::builder().build().tracer("test");
    let subscriber = tracing_subscriber::registry().with(tracing_opentelemetry::layer().with_tracer(tracer));
    let outbox = Outbox::new("/shop").context(posthaste::trace::current);
    tracing::subscriber::with_default(subscriber, || {
        assert_eq!(headers_published_now(&outbox), serde_json::json!({}), "no trace, no header");
        let span = tracing::info_span!("place an order");
        let headers = span.in_scope(|| headers_published_now(&outbox));
        let context = span.context();
        let here = context.span().span_context().clone();
        let expected = format!("00-{}-{}-01", here.trace_id(), here.span_id());
        assert_eq!(headers[TRACEPARENT], expected);
    });
}

#[test]
fn what_the_event_says_itself_wins_over_the_context() {
    let outbox =
        Outbox::new("/shop").context(|| [("correlation-id".to_owned(), "of the request".to_owned())].into());
    let publish = Publish::raw("order.placed", "{}").header("correlation-id", "of the event");
    let statement = outbox.statement(Dialect::Sqlite, publish).unwrap();
    assert!(statement.values.contains(&Value::Text(Some(r#"{"correlation-id":"of the event"}"#.to_owned()))));
    assert_eq!(headers_published_now(&outbox), serde_json::json!({"correlation-id": "of the request"}));
}
