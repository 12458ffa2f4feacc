SELECT to_regclass('{prefix}meta') IS NOT NULL
