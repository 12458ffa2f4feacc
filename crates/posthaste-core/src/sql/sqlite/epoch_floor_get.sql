SELECT epoch_floor FROM {prefix}meta WHERE id = 1
