INSERT INTO {prefix}audit (at, actor, via, command, filter, matched, changed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
