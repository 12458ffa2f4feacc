-- What a consumer whose effects are in this database has handled. Bytes, so that names that differ in case or in a space at
-- their end are two; and as many as a name may have, so that none is ever cut.
CREATE TABLE {prefix}inbox (
    consumer   varbinary(255) NOT NULL,
    event_id   varbinary(255) NOT NULL,
    source     varbinary(255) NOT NULL,
    handled_at datetime(6)    NOT NULL DEFAULT (utc_timestamp(6)),
    PRIMARY KEY (consumer, event_id, source),
    KEY {prefix}inbox_age (handled_at)
) ENGINE = InnoDB;

-- What a consumer whose effects are elsewhere has processed. at: when the state began; token: who may end what is in progress.
CREATE TABLE {prefix}dedup (
    consumer   varbinary(255) NOT NULL,
    event_id   varbinary(255) NOT NULL,
    source     varbinary(255) NOT NULL,
    state      varchar(16)    NOT NULL CHECK (state IN ('in_progress', 'processed', 'failed')),
    token      varchar(64)    NOT NULL,
    at         datetime(6)    NOT NULL,
    last_error text,
    PRIMARY KEY (consumer, event_id, source),
    KEY {prefix}dedup_age (state, at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
