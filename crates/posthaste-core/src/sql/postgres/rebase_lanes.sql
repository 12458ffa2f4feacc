-- Every lane goes to the tick $1; what it has parked and its totals stay. The epoch ends whatever lease is out.
UPDATE {prefix}lanes
SET tick_a = $1, tick_b = NULL, position = 0, epoch = epoch + 1, owner_name = NULL, owner_run = NULL, lease_until = 'epoch',
    stumbles = 0, updated_at = clock_timestamp()
