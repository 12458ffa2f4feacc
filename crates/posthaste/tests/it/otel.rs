//! Trace context travels with an event: an outbox that is told to asks the current span for it.

use std::sync::{Arc, Mutex};

use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use posthaste::admin::{Admin as _, Filter, Page};
use posthaste::consumer::{Consumer, Cx, Failure};
use posthaste::envelope::Envelope;
use posthaste::local::LocalBroker;
use posthaste::memory::Memory;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::sql::{Dialect, Value};
use posthaste::trace::TRACEPARENT;
use tracing::Subscriber;
use tracing::subscriber::NoSubscriber;
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

fn subscriber() -> impl Subscriber + Send + Sync {
    // While there is one subscriber, a span that another thread makes first is turned off for all.
    let _is_set = tracing::subscriber::set_global_default(NoSubscriber::new());
    let tracer = SdkTracerProvider::builder().build().tracer("test");
    tracing_subscriber::registry().with(tracing_opentelemetry::layer().with_tracer(tracer))
}

#[test]
fn the_current_spans_context_becomes_the_events_headers() {
    let subscriber = subscriber();
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

type Traces = Arc<Mutex<Vec<String>>>;

/// Notes the trace that the handler is in, and publishes.
async fn handle(cx: &mut Cx<Memory, Traces>, _: Arc<Envelope>) -> Result<(), Failure> {
    let context = tracing::Span::current().context();
    let trace = context.span().span_context().trace_id().to_string();
    cx.state().lock().expect("nobody panics while holding it").push(trace);
    cx.publish(Publish::raw("order.answered", "{}")).await?;
    Ok(())
}

/// The producer's trace goes on in the handler, one by one and in batches, and in what the handler publishes.
#[tokio::test]
async fn a_consumer_continues_the_producers_trace() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";
    let subscriber = subscriber();
    let _here = tracing::subscriber::set_default(subscriber);
    for batch in [1, 4] {
        let (broker, store, traces) = (LocalBroker::new(), Memory::new(), Traces::default());
        let consumer = Consumer::new("stock", store.clone(), Arc::clone(&traces))
            .on_any(handle)
            .topics(["order.placed"]);
        let consumer = consumer.batch(batch);
        consumer.declare(&broker).await.unwrap();
        for _ in 0..2 {
            let event =
                Publish::raw("order.placed", "{}").header(TRACEPARENT, format!("00-{TRACE}-{SPAN}-01"));
            broker.publish(event).await.unwrap();
        }
        let (ran, _) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
        ran.unwrap();
        assert_eq!(*traces.lock().unwrap(), [TRACE, TRACE], "batches of {batch}");
        let published = store.find(&Filter::default(), Page::first(10)).await.unwrap().records;
        assert_eq!(published.len(), 2);
        for record in published {
            let parent = &record.envelope.headers[TRACEPARENT];
            assert!(parent.starts_with(&format!("00-{TRACE}-")), "{parent}");
            assert!(!parent.contains(SPAN), "its parent is the handler's span: {parent}");
        }
    }
}
