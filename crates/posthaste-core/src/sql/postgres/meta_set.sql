UPDATE {prefix}meta SET schema = $1, compatible_from = greatest(compatible_from, $2) WHERE id = 1
