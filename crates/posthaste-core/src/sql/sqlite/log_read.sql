-- The log from a place on. A long payload stays where it is: length() does not read it, and most lanes do not want every
-- event; who wants one fetches it (event_get.sql).
SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers, occurred_at,
       available_at, expires_at, created_at, CASE WHEN length(payload) <= 8192 THEN payload END, length(payload) > 8192
FROM {prefix}events WHERE seq > ?1 ORDER BY seq
