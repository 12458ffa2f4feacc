-- The first statement of every settle, and the only one that moves a place forward: it locks the lane's row,
-- so that settles and operators' commands on a lane come one after another. Guarded by owner, epoch, the old
-- place ($4-$6) and the tokens of the ticks between which the place moves ($10, $11): a lost lease, or a
-- server that lost a tick, records nothing. $12: the lease ends. $13-$15: what becomes of the state. $16,
-- $17: acknowledged events that the place passes.
UPDATE {prefix}lanes
SET tick_a = $7, tick_b = $8, position = $9,
    stumbles = CASE WHEN $12 OR tick_a <> $7 OR tick_b IS DISTINCT FROM $8 OR position <> $9 THEN 0 ELSE stumbles END,
    lease_until = CASE WHEN $12 THEN clock_timestamp() ELSE clock_timestamp() + $17 * interval '1 microsecond' END,
    owner_name = CASE WHEN $12 THEN NULL ELSE owner_name END,
    owner_run = CASE WHEN $12 THEN NULL ELSE owner_run END,
    state = CASE WHEN $13 THEN 'retired'
                 -- What an operator or a retirement said is not overwritten by how the target is.
                 WHEN $14 AND state IN ('active', 'unavailable') THEN CASE WHEN $15::text IS NULL THEN 'active' ELSE 'unavailable' END
                 ELSE state END,
    reason = CASE WHEN $13 OR ($14 AND state IN ('active', 'unavailable')) THEN $15 ELSE reason END,
    accepted = accepted + $16, delivered = delivered + $16, updated_at = clock_timestamp()
WHERE lane = $1 AND shard = 0 AND epoch = $2 AND owner_run = $3
  AND tick_a = $4 AND tick_b IS NOT DISTINCT FROM $5 AND position = $6
  AND (SELECT count(*) FROM {prefix}ticks t JOIN unnest($10::bigint[], $11::text[]) AS k (id, token)
       ON t.id = k.id AND t.token = k.token::uuid) = cardinality($10)
RETURNING state, clock_timestamp(), owner_run IS NOT NULL AND wanted_until > clock_timestamp() AND wanted_by <> $3,
          -- Its own id, which a peek must not take for somebody else's work.
          pg_current_xact_id()::text
