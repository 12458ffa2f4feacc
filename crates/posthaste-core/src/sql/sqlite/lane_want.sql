-- Promises a held lane to this run (?2) until ?4 if its holder drives at least two more. A run that a lane is
-- promised to counts as its driver already, so that not all lanes are handed over at once.
UPDATE {prefix}lanes SET wanted_by = ?2, wanted_until = ?4
WHERE lane = ?1 AND shard = 0 AND state IN ('active', 'unavailable') AND lease_until > ?3 AND wanted_until <= ?3
  AND (SELECT count(*) FROM {prefix}lanes o WHERE CASE WHEN o.wanted_until > ?3 THEN o.wanted_by WHEN o.lease_until > ?3 THEN o.owner_run END
           = {prefix}lanes.owner_run)
   >= (SELECT count(*) FROM {prefix}lanes m WHERE CASE WHEN m.wanted_until > ?3 THEN m.wanted_by WHEN m.lease_until > ?3 THEN m.owner_run END
           = ?2) + 2
