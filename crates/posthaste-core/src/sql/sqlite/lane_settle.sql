-- The only statement that moves a place forward; guarded by epoch and run, so that a lost lease records nothing.
-- ?15: the lease ends cleanly.
UPDATE {prefix}lanes
SET position = ?4, lease_until = ?5,
    stumbles = CASE WHEN ?15 OR ?4 <> position THEN 0 ELSE stumbles END,
    state = ?6, reason = ?7,
    accepted = accepted + ?8, delivered = delivered + ?9, waiting = waiting + ?10, dead = dead + ?11,
    discarded = discarded + ?12, replayed = replayed + ?13,
    owner_name = CASE WHEN ?15 THEN NULL ELSE owner_name END,
    owner_run = CASE WHEN ?15 THEN NULL ELSE owner_run END,
    updated_at = ?14
WHERE lane = ?1 AND shard = 0 AND epoch = ?2 AND owner_run = ?3
