SELECT id, at, actor, via, command, filter, matched, changed FROM {prefix}audit WHERE id < $1 ORDER BY id DESC LIMIT $2
