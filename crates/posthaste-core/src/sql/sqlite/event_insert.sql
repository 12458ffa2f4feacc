-- A second publish of one id is no error here: the caller compares the contents (event_same.sql).
INSERT INTO {prefix}events
    (event_id, source, event_type, topic, key, subject, schema_version, content_type, headers,
     occurred_at, available_at, expires_at, created_at, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (event_id, source, tenant) DO NOTHING
