-- Promises a held lane to the run $2 for the length of a lease ($3, microseconds): if its holder drives at
-- least two more lanes, or by an older definition than $4. A run that a lane is promised to counts as its
-- driver already, so that not all lanes are handed over at once; share_lock.sql comes before, so that two who
-- ask count one after the other.
UPDATE {prefix}lanes l SET wanted_by = $2, wanted_until = clock_timestamp() + $3 * interval '1 microsecond'
WHERE l.lane = $1 AND l.shard = 0 AND l.state IN ('active', 'unavailable')
  AND l.lease_until > clock_timestamp() AND l.wanted_until <= clock_timestamp() AND l.owner_run <> $2
  AND (l.spec <> $4
       OR (SELECT count(*) FROM {prefix}lanes o WHERE CASE WHEN o.wanted_until > clock_timestamp() THEN o.wanted_by WHEN o.lease_until > clock_timestamp() THEN o.owner_run END
               = l.owner_run)
       >= (SELECT count(*) FROM {prefix}lanes m WHERE CASE WHEN m.wanted_until > clock_timestamp() THEN m.wanted_by WHEN m.lease_until > clock_timestamp() THEN m.owner_run END
               = $2) + 2)
