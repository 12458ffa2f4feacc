SELECT name FROM {prefix}keys WHERE hash = $1
