-- An event for an operator who did not ask for its payload: only how long that is. Text is measured in bytes.
SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers,
       occurred_at, available_at, expires_at, created_at,
       CASE typeof(payload) WHEN 'text' THEN length(CAST(payload AS BLOB)) ELSE length(payload) END
FROM {prefix}events WHERE seq = ?1
