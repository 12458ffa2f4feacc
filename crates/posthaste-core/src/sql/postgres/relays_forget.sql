-- Relays that ended long ago and drive nothing.
DELETE FROM {prefix}relays r
WHERE r.seen_at < clock_timestamp() - interval '1 day' AND NOT EXISTS (SELECT 1 FROM {prefix}lanes l WHERE l.owner_run = r.run)
