-- Takes what all lanes have of an event.
DELETE FROM {prefix}parked INDEXED BY {prefix}parked_seq WHERE seq = ?1 RETURNING lane, state, key
