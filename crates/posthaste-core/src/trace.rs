//! Trace context and correlation, carried in headers.

/// The header of the W3C trace context.
pub const TRACEPARENT: &str = "traceparent";
/// The header of the vendors' part of it.
pub const TRACESTATE: &str = "tracestate";
/// The header that ties together what one request caused.
pub const CORRELATION_ID: &str = "correlation-id";

/// The trace context of the current `tracing` span as headers; none where there is no trace.
///
/// Hand it to an outbox: `Outbox::new("/shop").context(posthaste_core::trace::current)`.
#[cfg(feature = "otel")]
pub fn current() -> crate::envelope::Headers {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let context = tracing::Span::current().context();
    let span = context.span();
    let here = span.span_context();
    let mut headers = crate::envelope::Headers::new();
    if here.is_valid() {
        let parent = format!("00-{}-{}-{:02x}", here.trace_id(), here.span_id(), here.trace_flags().to_u8());
        headers.insert(TRACEPARENT.to_owned(), parent);
        let state = here.trace_state().header();
        if !state.is_empty() {
            headers.insert(TRACESTATE.to_owned(), state);
        }
    }
    headers
}
