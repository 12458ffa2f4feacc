SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::text, occurred_at,
       available_at, expires_at, created_at, payload, octet_length(payload)::bigint
FROM {prefix}events WHERE event_id = $1 AND source = $2 AND tenant = ''
