-- What reading without gaps relies on, each with its own column, so that a message can say what to mend.
SELECT current_setting('server_version_num')::bigint AS version,
       pg_is_in_recovery() AS is_standby,
       (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE d.adrelid = '{prefix}events'::regclass AND a.attname = 'seq') AS seq_default,
       (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE d.adrelid = '{prefix}events'::regclass AND a.attname = 'xid') AS xid_default,
       (SELECT seqcache = 1 AND seqincrement = 1 AND NOT seqcycle FROM pg_sequence WHERE seqrelid = '{prefix}events_seq'::regclass) AS is_sequence_plain,
       (SELECT indisvalid FROM pg_index WHERE indexrelid = '{prefix}events_xid'::regclass) AS is_index_valid,
       row_security_active('{prefix}events'::regclass) AS is_row_security_active,
       current_setting('fsync') = 'on' AS is_fsync_on,
       (SELECT xid FROM {prefix}events ORDER BY xid DESC LIMIT 1) >= pg_snapshot_xmax(pg_current_snapshot()) AS has_foreign_ids
