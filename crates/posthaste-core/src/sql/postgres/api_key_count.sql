SELECT count(*) FROM {prefix}keys
