-- Takes what all lanes have of these events, unless a lane has come to need one of them.
DELETE FROM {prefix}parked p
WHERE p.seq = ANY ($1)
  AND NOT EXISTS (SELECT 1 FROM {prefix}parked o WHERE o.seq = p.seq AND coalesce(o.dead_at, $2) >= $2)
RETURNING p.lane, p.seq, p.state, p.key
