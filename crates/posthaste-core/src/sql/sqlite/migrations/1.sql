-- Schema 1: the log, its lanes, what they set aside, what consumers have handled, keys and the audit. Times are microseconds since 1970 in UTC.
--
-- STRICT keeps a plain-SQL producer from storing a text where a time belongs, which would stop every lane at that row.

-- AUTOINCREMENT: without it retention would free the highest number, and the next event would get a number that lanes
-- have passed already. payload stands last, so that reading the other columns never walks its overflow pages.
-- The default times work in old SQLite versions too, as a producer evaluates them with its own library.
CREATE TABLE {prefix}events (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id       TEXT    NOT NULL CHECK (length(CAST(event_id AS BLOB)) BETWEEN 1 AND 255),
    source         TEXT    NOT NULL DEFAULT '' CHECK (length(CAST(source AS BLOB)) <= 255),
    tenant         TEXT    NOT NULL DEFAULT '' CHECK (length(CAST(tenant AS BLOB)) <= 255),
    event_type     TEXT    NOT NULL CHECK (length(CAST(event_type AS BLOB)) BETWEEN 1 AND 255),
    topic          TEXT    CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
    key            TEXT    CHECK (length(CAST(key AS BLOB)) <= 255),
    subject        TEXT    CHECK (length(CAST(subject AS BLOB)) <= 255),
    schema_version INTEGER NOT NULL DEFAULT 1 CHECK (schema_version BETWEEN 1 AND 4294967295),
    content_type   TEXT    NOT NULL DEFAULT 'application/json' CHECK (length(CAST(content_type AS BLOB)) BETWEEN 1 AND 255),
    headers        TEXT    NOT NULL DEFAULT '{}'
                   CHECK (headers = '{}' OR (json_valid(headers) AND json_type(headers) = 'object' AND length(headers) <= 65536)),
    occurred_at    INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f','now'), 4) AS INTEGER) * 1000),
    available_at   INTEGER,
    expires_at     INTEGER,
    created_at     INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f','now'), 4) AS INTEGER) * 1000),
    payload        ANY     CHECK (typeof(payload) IN ('blob', 'text', 'null') AND length(payload) <= 67108864),
    -- event_id first: an operator looks for an id without knowing its source.
    UNIQUE (event_id, source, tenant)
) STRICT;

-- accepted = delivered + waiting + dead + discarded, changed in the transaction of what they count.
CREATE TABLE {prefix}lanes (
    lane        TEXT    NOT NULL,
    shard       INTEGER NOT NULL DEFAULT 0,
    owner_name  TEXT,
    owner_run   TEXT,
    epoch       INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER NOT NULL DEFAULT 0,
    -- The run of a relay that should have the lane, and until when it is promised to it.
    wanted_by    TEXT,
    wanted_until INTEGER NOT NULL DEFAULT 0,
    position    INTEGER NOT NULL,
    stumbles    INTEGER NOT NULL DEFAULT 0,
    state       TEXT    NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused', 'unavailable', 'retired', 'error')),
    reason      TEXT,
    accepted    INTEGER NOT NULL DEFAULT 0,
    delivered   INTEGER NOT NULL DEFAULT 0,
    waiting     INTEGER NOT NULL DEFAULT 0,
    dead        INTEGER NOT NULL DEFAULT 0,
    discarded   INTEGER NOT NULL DEFAULT 0,
    replayed    INTEGER NOT NULL DEFAULT 0,
    spec        TEXT    NOT NULL DEFAULT '{}',
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (lane, shard)
) STRICT, WITHOUT ROWID;

-- available_at is set exactly while the row can be handed out at a time: a row behind its key's head waits for that head
-- instead. A leased row has the time at which it was parked; whoever leased it knows so, and everybody else may have it.
-- A done row was delivered, but the place has not passed it: it keeps the log from handing the event out again, and goes
-- with the settle that moves the place over it.
CREATE TABLE {prefix}parked (
    lane            TEXT    NOT NULL,
    seq             INTEGER NOT NULL,
    shard           INTEGER NOT NULL DEFAULT 0,
    key             TEXT,
    state           TEXT    NOT NULL CHECK (state IN ('retrying', 'scheduled', 'behind', 'leased', 'dead', 'discarded', 'done')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    available_at    INTEGER,
    epoch           INTEGER NOT NULL DEFAULT 0,
    code            TEXT,
    last_error      TEXT,
    first_failed_at INTEGER,
    dead_at         INTEGER,
    replay          INTEGER NOT NULL DEFAULT 0 CHECK (replay IN (0, 1)),
    PRIMARY KEY (lane, seq),
    CHECK ((available_at IS NOT NULL) = (state IN ('retrying', 'scheduled', 'leased'))),
    CHECK ((dead_at IS NOT NULL) = (state IN ('dead', 'discarded')))
) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}parked_due ON {prefix}parked (lane, shard, available_at, seq) WHERE available_at IS NOT NULL;
-- What holds a key. A query uses a partial index only if it repeats the index's condition word for word; and without
-- statistics the planner likes the primary key more, which would walk the whole lane: hence INDEXED BY in the queries.
CREATE INDEX {prefix}parked_key ON {prefix}parked (lane, shard, key, seq)
    WHERE key IS NOT NULL AND replay = 0 AND state IN ('retrying', 'behind', 'leased');
-- What holds a key in a lane that blocks on dead events; apart, so that a key with many dead events stays cheap elsewhere.
CREATE INDEX {prefix}parked_dead_key ON {prefix}parked (lane, shard, key, seq)
    WHERE key IS NOT NULL AND replay = 0 AND state = 'dead';
CREATE INDEX {prefix}parked_over ON {prefix}parked (lane, dead_at) WHERE dead_at IS NOT NULL;
-- What an operator looks for (the dead ones among very many that are retried, the oldest that waits), and what is done.
CREATE INDEX {prefix}parked_state ON {prefix}parked (lane, state, seq);
CREATE INDEX {prefix}parked_seq ON {prefix}parked (seq);

CREATE TABLE {prefix}keys (
    name       TEXT    NOT NULL PRIMARY KEY,
    hash       BLOB    NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at INTEGER NOT NULL
) STRICT;

-- What a consumer has handled: written first in the transaction of the event's effect, so that it is there if the effect is.
CREATE TABLE {prefix}inbox (
    consumer   TEXT    NOT NULL,
    event_id   TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    handled_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s','now') AS INTEGER) * 1000000 + CAST(substr(strftime('%f','now'), 4) AS INTEGER) * 1000),
    PRIMARY KEY (consumer, event_id, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX {prefix}inbox_age ON {prefix}inbox (handled_at);

-- What a consumer whose effects are elsewhere has processed. at: when the state began; token: who may end what is in progress.
CREATE TABLE {prefix}dedup (
    consumer   TEXT    NOT NULL,
    event_id   TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('in_progress', 'processed', 'failed')),
    token      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    taken_over INTEGER NOT NULL DEFAULT 0 CHECK (taken_over IN (0, 1)),
    last_error TEXT,
    PRIMARY KEY (consumer, event_id, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX {prefix}dedup_age ON {prefix}dedup (at) WHERE state <> 'in_progress';

CREATE TABLE {prefix}audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    via     TEXT    NOT NULL,
    command TEXT    NOT NULL,
    filter  TEXT    NOT NULL DEFAULT '{}',
    matched INTEGER NOT NULL,
    changed INTEGER NOT NULL
) STRICT;
-- A file has no roles, so whoever can write it can do anything; but nobody changes the record by mistake or in passing.
CREATE TRIGGER {prefix}audit_update BEFORE UPDATE ON {prefix}audit
BEGIN SELECT RAISE(ABORT, 'the record of commands is only added to'); END;
CREATE TRIGGER {prefix}audit_delete BEFORE DELETE ON {prefix}audit
BEGIN SELECT RAISE(ABORT, 'the record of commands is only added to'); END;

-- epoch_floor: the highest epoch of any removed lane; a lane that is made anew begins above it, so that an old lease
-- never looks valid again.
CREATE TABLE {prefix}meta (
    id              INTEGER PRIMARY KEY CHECK (id = 1),
    schema          INTEGER NOT NULL,
    compatible_from INTEGER NOT NULL,
    epoch_floor     INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO {prefix}meta (id, schema, compatible_from) VALUES (1, 1, 1);
