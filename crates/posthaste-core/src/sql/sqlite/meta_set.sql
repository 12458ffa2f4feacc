UPDATE {prefix}meta SET schema = ?1, compatible_from = max(compatible_from, ?2) WHERE id = 1
