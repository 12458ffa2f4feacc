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
       pg_encoding_to_char(d.encoding) AS encoding,
       -- A row trigger can change a number or an id, or keep a row from being stored or removed.
       (SELECT string_agg(tgname, ', ' ORDER BY tgname) FROM pg_trigger
        WHERE tgrelid = '{prefix}events'::regclass AND NOT tgisinternal AND tgtype & 1 = 1 AND tgenabled <> 'D'
          AND tgname <> '{prefix}own_xid') AS other_triggers,
       -- R: fires for an apply worker only; A: always, which changes nothing for an ordinary insert.
       (SELECT tgenabled IN ('R', 'A') FROM pg_trigger
        WHERE tgrelid = '{prefix}events'::regclass AND tgname = '{prefix}own_xid') AS has_own_trigger,
       (SELECT string_agg(format('GRANT %s ON {prefix}%s TO %I', r.rights, r.name, current_user), '; ')
        FROM (VALUES ('events', 'SELECT'), ('ticks', 'SELECT,INSERT'), ('lanes', 'SELECT,INSERT,UPDATE'),
                     ('parked', 'SELECT,INSERT,UPDATE,DELETE'), ('relays', 'SELECT,INSERT,UPDATE,DELETE'),
                     ('audit', 'INSERT'), ('meta', 'SELECT')) AS r (name, rights),
             LATERAL (SELECT count(*) AS missing FROM unnest(string_to_array(r.rights, ',')) AS one
                      WHERE NOT has_table_privilege('{prefix}' || r.name, one)) m
        WHERE m.missing > 0) AS missing_rights,
       m.system_id <> c.system_identifier::text AS is_other_server,
       m.database_oid <> d.oid::bigint AS is_other_database,
       -- What the future brings was brought by another server.
       coalesce((SELECT xid FROM {prefix}events ORDER BY xid DESC LIMIT 1) >= pg_snapshot_xmax(pg_current_snapshot()), false)
       OR coalesce((SELECT pg_snapshot_xmax(snap) FROM {prefix}ticks ORDER BY id DESC LIMIT 1) > pg_snapshot_xmax(pg_current_snapshot()), false)
       AS has_foreign_ids
FROM {prefix}meta m, pg_control_system() c, pg_database d
WHERE m.id = 1 AND d.datname = current_database()
