-- The only statement that moves a place forward; guarded by epoch and run, so that a lost lease records nothing.
-- ?16: the lease ends cleanly.
UPDATE {prefix}lanes
SET position = ?5, lease_until = ?6,
    stumbles = CASE WHEN ?16 OR ?5 <> position THEN 0 ELSE stumbles END,
    state = ?7, reason = ?8,
    accepted = accepted + ?9, delivered = delivered + ?10, waiting = waiting + ?11, dead = dead + ?12,
    discarded = discarded + ?13, replayed = replayed + ?14,
    owner_name = CASE WHEN ?16 THEN NULL ELSE owner_name END,
    owner_run = CASE WHEN ?16 THEN NULL ELSE owner_run END,
    updated_at = ?15
WHERE lane = ?1 AND shard = ?2 AND epoch = ?3 AND owner_run = ?4
