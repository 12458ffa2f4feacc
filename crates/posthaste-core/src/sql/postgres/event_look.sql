-- Events for an operator who did not ask for payloads: only how long these are.
SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
       available_at, expires_at, created_at, NULL::bytea, octet_length(payload)::bigint
FROM {prefix}events WHERE seq = ANY ($1) ORDER BY seq
