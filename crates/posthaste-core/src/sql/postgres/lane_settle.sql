-- The first statement of every settle, and the only one that moves a place forward: it locks the lane's row, so that
-- settles and operators' commands on a lane come one after another. Guarded by owner, epoch, the old place ($5-$7) and the
-- tokens of the ticks between which the place moves ($11, $12): a lost lease, or a server that lost a tick, records nothing.
-- $13: the lease ends. $14-$16: what becomes of the state. $17, $18: acknowledged events that the place passes.
UPDATE {prefix}lanes
SET tick_a = $8, tick_b = $9, position = $10,
    stumbles = CASE WHEN $13 OR tick_a <> $8 OR tick_b IS DISTINCT FROM $9 OR position <> $10 THEN 0 ELSE stumbles END,
    lease_until = CASE WHEN $13 THEN clock_timestamp() ELSE clock_timestamp() + $18 * interval '1 microsecond' END,
    owner_name = CASE WHEN $13 THEN NULL ELSE owner_name END,
    owner_run = CASE WHEN $13 THEN NULL ELSE owner_run END,
    state = CASE WHEN $14 THEN 'retired'
                 -- What an operator or a retirement said is not overwritten by how the target is.
                 WHEN $15 AND state IN ('active', 'unavailable') THEN CASE WHEN $16::text IS NULL THEN 'active' ELSE 'unavailable' END
                 ELSE state END,
    reason = CASE WHEN $14 OR ($15 AND state IN ('active', 'unavailable')) THEN $16 ELSE reason END,
    accepted = accepted + $17, delivered = delivered + $17, updated_at = clock_timestamp()
WHERE lane = $1 AND shard = $2 AND epoch = $3 AND owner_run = $4
  AND tick_a = $5 AND tick_b IS NOT DISTINCT FROM $6 AND position = $7
  AND (SELECT count(*) FROM {prefix}ticks t JOIN unnest($11::bigint[], $12::text[]) AS k (id, token)
       ON t.id = k.id AND t.token = k.token::uuid) = cardinality($11)
RETURNING state, clock_timestamp(), owner_run IS NOT NULL AND wanted_until > clock_timestamp() AND wanted_by <> $4,
          -- Its own id, which a peek must not take for somebody else's work.
          pg_current_xact_id()::text
