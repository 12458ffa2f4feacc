-- Schema 1: the log, its ticks, its lanes, what they set aside, keys and the audit.
--
-- The order of an insert's two numbers is what reading without gaps rests on: the CASE makes the transaction have its id
-- before it takes a number (`> '0'` is always true, but no planner can fold it away), and CACHE 1 keeps a session from
-- holding back numbers. Whoever publishes never names seq or xid.
CREATE SEQUENCE {prefix}events_seq AS bigint INCREMENT BY 1 CACHE 1 NO CYCLE;

CREATE TABLE {prefix}events (
    -- Reading begins after 0: what has no number above it would never be met.
    seq            bigint      NOT NULL PRIMARY KEY CHECK (seq > 0)
                   DEFAULT CASE WHEN pg_current_xact_id() > '0' THEN nextval('{prefix}events_seq') END,
    xid            xid8        NOT NULL DEFAULT pg_current_xact_id(),
    event_id       text        COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    source         text        COLLATE "C" NOT NULL DEFAULT '' CHECK (octet_length(source) <= 255),
    tenant         text        COLLATE "C" NOT NULL DEFAULT '' CHECK (octet_length(tenant) <= 255),
    event_type     text        COLLATE "C" NOT NULL CHECK (octet_length(event_type) BETWEEN 1 AND 255),
    topic          text        COLLATE "C" CHECK (octet_length(topic) BETWEEN 1 AND 255),
    key            text        COLLATE "C" CHECK (octet_length(key) <= 255),
    subject        text        COLLATE "C" CHECK (octet_length(subject) <= 255),
    schema_version bigint      NOT NULL DEFAULT 1 CHECK (schema_version BETWEEN 1 AND 4294967295),
    content_type   text        COLLATE "C" NOT NULL DEFAULT 'application/json' CHECK (octet_length(content_type) BETWEEN 1 AND 255),
    headers        jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(headers) = 'object'),
    occurred_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    available_at   timestamptz,
    expires_at     timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Stored, not computed by who reads: a filter by an expression spoils the plan.
    bucket         smallint    GENERATED ALWAYS AS ((hashtextextended(key, 0) & 255)::smallint) STORED,
    -- NULL after an erasure.
    payload        bytea       CHECK (octet_length(payload) <= 67108864),
    -- event_id first: an operator looks for an id without knowing its source.
    UNIQUE (event_id, source, tenant)
);
ALTER SEQUENCE {prefix}events_seq OWNED BY {prefix}events.seq;
-- What committed late is found by its transaction.
CREATE INDEX {prefix}events_xid ON {prefix}events (xid, seq);

-- Rows that logical replication brings carry the id of a transaction elsewhere. For an apply worker only, so that an
-- ordinary insert pays nothing.
CREATE FUNCTION {prefix}own_xid() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.xid := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER {prefix}own_xid BEFORE INSERT ON {prefix}events FOR EACH ROW EXECUTE FUNCTION {prefix}own_xid();
ALTER TABLE {prefix}events ENABLE REPLICA TRIGGER {prefix}own_xid;

-- What was visible at a moment: a lane's place is a tick, or somewhere between two. low: the last number that was given
-- before the tick before. The token tells a tick from another one of the same number after a server lost its last moments.
CREATE TABLE {prefix}ticks (
    id       bigint      NOT NULL PRIMARY KEY,
    snap     pg_snapshot NOT NULL,
    last_seq bigint      NOT NULL,
    low      bigint      NOT NULL,
    token    uuid        NOT NULL DEFAULT gen_random_uuid(),
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Before everything: no ordinary transaction has an id below 3.
INSERT INTO {prefix}ticks (id, snap, last_seq, low) VALUES (0, '3:3:', 0, 0);

-- Everything visible in tick_a is settled; where tick_b is set, also what it sees up to the number position.
-- accepted = delivered + waiting + dead + discarded, changed in the transaction of what they count.
CREATE TABLE {prefix}lanes (
    lane        text        COLLATE "C" NOT NULL,
    shard       integer     NOT NULL DEFAULT 0,
    owner_name  text,
    owner_run   text        COLLATE "C",
    epoch       bigint      NOT NULL DEFAULT 0,
    lease_until timestamptz NOT NULL DEFAULT 'epoch',
    -- The run of a relay that should have the lane, and until when it is promised to it.
    wanted_by    text        COLLATE "C",
    wanted_until timestamptz NOT NULL DEFAULT 'epoch',
    tick_a      bigint      NOT NULL,
    tick_b      bigint,
    position    bigint      NOT NULL DEFAULT 0,
    stumbles    integer     NOT NULL DEFAULT 0,
    state       text        COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'unavailable', 'retired', 'error')),
    reason      text,
    accepted    bigint      NOT NULL DEFAULT 0,
    delivered   bigint      NOT NULL DEFAULT 0,
    waiting     bigint      NOT NULL DEFAULT 0,
    dead        bigint      NOT NULL DEFAULT 0,
    discarded   bigint      NOT NULL DEFAULT 0,
    replayed    bigint      NOT NULL DEFAULT 0,
    spec        text        NOT NULL DEFAULT '{}',
    -- The run of the relay that last took the lane, and thus stands for its definition.
    spec_run    text        COLLATE "C",
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (lane, shard)
) WITH (fillfactor = 50);

-- The relays that ask for lanes: of two that define one lane differently, the one that started later has it.
CREATE TABLE {prefix}relays (
    run        text        COLLATE "C" NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    version    text        NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- available_at is set exactly while the row can be handed out at a time: a row behind its key's head waits for that head
-- instead. Whoever promotes or parks holds the lock of the lane's row, so that no head can leave while a follower comes.
-- A done row was delivered, but the place has not passed it: it keeps the log from handing the event out again, and goes
-- with the settle that moves the place over it.
CREATE TABLE {prefix}parked (
    lane            text        COLLATE "C" NOT NULL,
    seq             bigint      NOT NULL,
    shard           integer     NOT NULL DEFAULT 0,
    key             text        COLLATE "C",
    state           text        COLLATE "C" NOT NULL CHECK (state IN ('retrying', 'scheduled', 'behind', 'leased', 'dead', 'discarded', 'done')),
    attempts        bigint      NOT NULL DEFAULT 0,
    available_at    timestamptz,
    epoch           bigint      NOT NULL DEFAULT 0,
    code            text,
    last_error      text,
    first_failed_at timestamptz,
    dead_at         timestamptz,
    replay          boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (lane, seq),
    CHECK ((available_at IS NOT NULL) = (state IN ('retrying', 'scheduled', 'leased'))),
    CHECK ((dead_at IS NOT NULL) = (state IN ('dead', 'discarded')))
);
CREATE INDEX {prefix}parked_due ON {prefix}parked (lane, shard, available_at, seq) WHERE available_at IS NOT NULL;
-- What holds a key, and apart from it what holds one in a lane that blocks on dead events.
CREATE INDEX {prefix}parked_key ON {prefix}parked (lane, shard, key, seq)
    WHERE key IS NOT NULL AND NOT replay AND state IN ('retrying', 'behind', 'leased');
CREATE INDEX {prefix}parked_dead_key ON {prefix}parked (lane, shard, key, seq)
    WHERE key IS NOT NULL AND NOT replay AND state = 'dead';
CREATE INDEX {prefix}parked_over ON {prefix}parked (lane, dead_at) WHERE dead_at IS NOT NULL;
-- What an operator looks for (the dead ones among very many that are retried, the oldest that waits), and what is done.
CREATE INDEX {prefix}parked_state ON {prefix}parked (lane, state, seq);
CREATE INDEX {prefix}parked_seq ON {prefix}parked (seq);

CREATE TABLE {prefix}keys (
    name       text        COLLATE "C" NOT NULL PRIMARY KEY,
    hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What a consumer has handled: written first in the transaction of the event's effect, so that it is there if the effect is.
CREATE TABLE {prefix}inbox (
    consumer   text        COLLATE "C" NOT NULL,
    event_id   text        COLLATE "C" NOT NULL,
    source     text        COLLATE "C" NOT NULL,
    handled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, event_id, source)
);
CREATE INDEX {prefix}inbox_age ON {prefix}inbox (handled_at);

-- What a consumer whose effects are elsewhere has processed. at: when the state began; token: who may end what is in progress.
CREATE TABLE {prefix}dedup (
    consumer   text        COLLATE "C" NOT NULL,
    event_id   text        COLLATE "C" NOT NULL,
    source     text        COLLATE "C" NOT NULL,
    state      text        COLLATE "C" NOT NULL CHECK (state IN ('in_progress', 'processed', 'failed')),
    token      text        COLLATE "C" NOT NULL,
    at         timestamptz NOT NULL,
    taken_over boolean     NOT NULL DEFAULT false,
    last_error text,
    PRIMARY KEY (consumer, event_id, source)
);
CREATE INDEX {prefix}dedup_age ON {prefix}dedup (at) WHERE state <> 'in_progress';

CREATE TABLE {prefix}audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    via     text        NOT NULL,
    command text        NOT NULL,
    filter  text        NOT NULL DEFAULT '{}',
    matched bigint      NOT NULL,
    changed bigint      NOT NULL
);

-- epoch_floor: the highest epoch of any removed lane; a lane that is made anew begins above it, so that an old lease
-- never looks valid again. system_id, database_oid: where these tables were filled; the ids of transactions in them mean
-- nothing anywhere else.
CREATE TABLE {prefix}meta (
    id              integer NOT NULL PRIMARY KEY CHECK (id = 1),
    schema          bigint  NOT NULL,
    compatible_from bigint  NOT NULL,
    epoch_floor     bigint  NOT NULL DEFAULT 0,
    system_id       text    COLLATE "C" NOT NULL,
    database_oid    bigint  NOT NULL
);
INSERT INTO {prefix}meta (id, schema, compatible_from, system_id, database_oid)
SELECT 1, 1, 1, c.system_identifier::text, d.oid::bigint
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();
