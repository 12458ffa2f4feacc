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

/// Makes this span a part of the trace that the headers carry, if they carry one.
#[cfg(feature = "otel")]
pub fn continue_in(span: &tracing::Span, headers: &crate::envelope::Headers) {
    use opentelemetry::trace::TraceContextExt;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    if let Some(parent) = headers.get(TRACEPARENT).and_then(|text| parse(text, headers.get(TRACESTATE))) {
        let context = opentelemetry::Context::new().with_remote_span_context(parent);
        // An error means that no layer of the subscriber keeps traces.
        let _ = span.set_parent(context);
    }
}

/// Does nothing: this build keeps no traces.
#[cfg(not(feature = "otel"))]
pub fn continue_in(_: &tracing::Span, _: &crate::envelope::Headers) {}

/// `00-<trace id>-<span id>-<flags>`; later versions may have more at the end.
#[cfg(feature = "otel")]
fn parse(parent: &str, state: Option<&String>) -> Option<opentelemetry::trace::SpanContext> {
    use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

    let mut parts = parent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if version.len() != 2 || version == "ff" || trace.len() != 32 || span.len() != 16 || flags.len() != 2 {
        return None;
    }
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let state = state.and_then(|state| state.parse::<TraceState>().ok()).unwrap_or_default();
    let context = SpanContext::new(trace, span, flags, true, state);
    context.is_valid().then_some(context)
}
