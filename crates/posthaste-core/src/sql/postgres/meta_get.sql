SELECT schema, compatible_from FROM {prefix}meta WHERE id = 1
