-- Four roles with the rights that each needs. Run this as a superuser, or as whoever may make roles and owns the schema:
-- once before the first `posthaste migrate up`, and again after each one; what is there already is left alone.
--
-- The roles cannot log in: give them to the users of your programs, like
--   GRANT posthaste_publish TO shop;                              -- publishes and handles in its own transactions
--   GRANT posthaste_relay TO carrier;                             -- `posthaste relay`
--   GRANT posthaste_operate TO anna;                              -- looks, redrives, replays, discards, prunes, steers lanes
--   GRANT posthaste_relay, posthaste_publish TO server;           -- `posthaste serve`, which also publishes
--   GRANT posthaste_migrate TO deployer;                          -- `posthaste migrate up`
-- So that the tables belong to the role and not to one of its users: ALTER ROLE deployer SET role = posthaste_migrate.
--
-- Other names: replace the four in the whole text.
DO $roles$
DECLARE
    name text;
    home text := current_schema();
BEGIN
    FOREACH name IN ARRAY ARRAY['posthaste_publish', 'posthaste_relay', 'posthaste_operate', 'posthaste_migrate'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', home, name);
    END LOOP;
    -- Migrating: whoever makes the tables owns them, and may change them later.
    EXECUTE format('GRANT CREATE ON SCHEMA %I TO posthaste_migrate', home);

    IF to_regclass('{prefix}events') IS NULL THEN
        RAISE NOTICE 'there are no tables yet; run `posthaste migrate up` as posthaste_migrate, then this again';
        RETURN;
    END IF;

    -- Publishing: one INSERT, never with seq or xid, on whose order reading without gaps rests; nothing is read.
    GRANT INSERT (event_id, source, tenant, event_type, topic, key, subject, schema_version, content_type, headers,
                  occurred_at, available_at, expires_at, created_at, payload) ON {prefix}events TO posthaste_publish;
    GRANT USAGE ON SEQUENCE {prefix}events_seq TO posthaste_publish;
    -- Handling: an inbox row in the transaction of the effect, and idempotency records for effects elsewhere.
    GRANT INSERT ON {prefix}inbox TO posthaste_publish;
    GRANT SELECT, INSERT, UPDATE ON {prefix}dedup TO posthaste_publish;

    -- Operating: reads everything but API keys, removes what is old, overwrites payloads that must be erased, changes lanes and
    -- what they have parked, and adds to the record of commands, which nobody may change. Neither publishes nor drives a lane.
    GRANT SELECT, DELETE, UPDATE (payload) ON {prefix}events TO posthaste_operate;
    GRANT SELECT ON SEQUENCE {prefix}events_seq TO posthaste_operate;
    GRANT SELECT, INSERT, DELETE ON {prefix}ticks TO posthaste_operate;
    GRANT SELECT, UPDATE, DELETE ON {prefix}lanes TO posthaste_operate;
    GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix}parked TO posthaste_operate;
    GRANT SELECT ON {prefix}relays TO posthaste_operate;
    GRANT SELECT, DELETE ON {prefix}inbox, {prefix}dedup TO posthaste_operate;
    GRANT SELECT, INSERT ON {prefix}audit TO posthaste_operate;
    GRANT SELECT, UPDATE (epoch_floor) ON {prefix}meta TO posthaste_operate;

    -- Relaying, with retention and whatever else a server does by itself: the same, and makes lanes, keeps who relays, and adds
    -- API keys.
    GRANT SELECT, DELETE, UPDATE (payload) ON {prefix}events TO posthaste_relay;
    GRANT SELECT ON SEQUENCE {prefix}events_seq TO posthaste_relay;
    GRANT SELECT, INSERT, DELETE ON {prefix}ticks TO posthaste_relay;
    GRANT SELECT, INSERT, UPDATE, DELETE ON {prefix}lanes, {prefix}parked, {prefix}relays TO posthaste_relay;
    GRANT SELECT, DELETE ON {prefix}inbox, {prefix}dedup TO posthaste_relay;
    GRANT SELECT, INSERT ON {prefix}keys, {prefix}audit TO posthaste_relay;
    GRANT SELECT, UPDATE (epoch_floor) ON {prefix}meta TO posthaste_relay;
END $roles$;
