SELECT min(position) FROM {prefix}lanes
