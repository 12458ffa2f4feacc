UPDATE {prefix}meta SET epoch_floor = greatest(epoch_floor, $1) WHERE id = 1
