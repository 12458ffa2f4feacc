UPDATE {prefix}meta SET epoch_floor = max(epoch_floor, ?1) WHERE id = 1
