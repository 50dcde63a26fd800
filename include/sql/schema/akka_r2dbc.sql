-- The tables of akka-persistence-r2dbc 1.1.2, for PostgreSQL. With data partitions, each table of the
-- journal and of the snapshots exists once for each partition, with the suffix _0, _1 and so on.

CREATE TABLE IF NOT EXISTS event_journal (
    slice int NOT NULL,
    entity_type varchar(255) NOT NULL,
    persistence_id varchar(255) NOT NULL,
    seq_nr bigint NOT NULL,
    db_timestamp timestamptz NOT NULL,
    event_ser_id int NOT NULL,
    event_ser_manifest varchar(255) NOT NULL,
    event_payload bytea NOT NULL,
    deleted boolean NOT NULL DEFAULT false,
    writer varchar(255) NOT NULL,
    adapter_manifest varchar(255),
    tags text[],
    meta_ser_id int,
    meta_ser_manifest varchar(255),
    meta_payload bytea,
    PRIMARY KEY (persistence_id, seq_nr)
);

CREATE INDEX IF NOT EXISTS event_journal_slice_idx
    ON event_journal (slice, entity_type, db_timestamp, seq_nr);

CREATE TABLE IF NOT EXISTS snapshot (
    slice int NOT NULL,
    entity_type varchar(255) NOT NULL,
    persistence_id varchar(255) NOT NULL,
    seq_nr bigint NOT NULL,
    write_timestamp bigint NOT NULL,
    ser_id int NOT NULL,
    ser_manifest varchar(255) NOT NULL,
    snapshot bytea NOT NULL,
    meta_ser_id int,
    meta_ser_manifest varchar(255),
    meta_payload bytea,
    PRIMARY KEY (persistence_id)
);

CREATE TABLE IF NOT EXISTS akka_projection_timestamp_offset_store (
    projection_name varchar(255) NOT NULL,
    projection_key varchar(255) NOT NULL,
    slice int NOT NULL,
    persistence_id varchar(255) NOT NULL,
    seq_nr bigint NOT NULL,
    timestamp_offset timestamptz NOT NULL,
    timestamp_consumed timestamptz NOT NULL,
    PRIMARY KEY (slice, projection_name, timestamp_offset, persistence_id, seq_nr)
);
