-- In the order of the arrays: the numbers are taken after the sort. A second publish of one id is no error here: the
-- caller compares the contents (event_same.sql).
INSERT INTO {prefix}events
    (event_id, source, event_type, topic, key, subject, schema_version, content_type, headers,
     occurred_at, available_at, expires_at, created_at, payload)
SELECT event_id, source, event_type, topic, key, subject, schema_version, content_type, headers::jsonb,
       coalesce(occurred_at, now), coalesce(available_at, now + available_in * interval '1 microsecond'),
       coalesce(expires_at, now + expires_in * interval '1 microsecond'), now, payload
FROM (SELECT u.*, (SELECT clock_timestamp()) AS now
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
                  $9::text[], $10::timestamptz[], $11::timestamptz[], $12::bigint[], $13::timestamptz[], $14::bigint[],
                  $15::bytea[]) WITH ORDINALITY
           AS u (event_id, source, event_type, topic, key, subject, schema_version, content_type, headers,
                 occurred_at, available_at, available_in, expires_at, expires_in, payload, n)
      ORDER BY n) e
ON CONFLICT (event_id, source, tenant) DO NOTHING
RETURNING event_id, source
