-- A relay asks for a lane. Written now and then only, as it asks often. $4: how long a lease is.
INSERT INTO {prefix}relays (run, name, version) VALUES ($1, $2, $3)
ON CONFLICT (run) DO UPDATE SET seen_at = clock_timestamp()
WHERE {prefix}relays.seen_at < clock_timestamp() - $4 * interval '0.25 microseconds'
RETURNING xmax = 0 AS is_new
