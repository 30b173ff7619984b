-- Jobs that left the database for a file. One row of about 200 bytes a file, kept for good: only a file that is here, by its sum,
-- is ever read back.
CREATE TABLE archives (
    id          int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sha256      text NOT NULL UNIQUE CHECK (sha256 ~ '^[0-9a-f]{64}$'), -- as the file's last line has it
    before      timestamptz NOT NULL, -- its jobs finished before this
    first_ended timestamptz NOT NULL,
    last_ended  timestamptz NOT NULL CHECK (last_ended >= first_ended AND last_ended < before),
    jobs        bigint NOT NULL CHECK (jobs > 0),
    events      bigint NOT NULL CHECK (events >= 0),
    charges     bigint NOT NULL CHECK (charges >= 0),
    cancelled   bigint NOT NULL CHECK (cancelled >= 0),
    by_user     text NOT NULL,
    at          timestamptz NOT NULL, -- when the jobs left
    restored    timestamptz           -- when they came back, if they did
);

-- Jobs that finished before this time may be in files. It is the latest date of an archive that was not restored.
CREATE TABLE archive_mark (
    one   bool PRIMARY KEY DEFAULT true CHECK (one),
    until timestamptz NOT NULL
);
INSERT INTO archive_mark (until) VALUES ('-infinity');

-- What the charges of each archive had added to the rollups, where it stays: with the charges that are still here these give the
-- rollups, which store.CheckRollUp proves. As many rows as the rollups have where all is archived; they go when the archive is restored.
CREATE TABLE archived_hours (
    archive int NOT NULL REFERENCES archives,
    LIKE usage_hours,
    PRIMARY KEY (archive, hour, account, user_name, queue)
);
CREATE TABLE archived_consumable_hours (
    archive int NOT NULL REFERENCES archives,
    LIKE consumable_hours,
    PRIMARY KEY (archive, hour, account, user_name, queue, name)
);
CREATE TABLE archived_ended_sums (
    archive int NOT NULL REFERENCES archives,
    LIKE ended_sums,
    PRIMARY KEY (archive, level, start, account, user_name, queue, project, image)
);
CREATE TABLE archived_held_sums (
    archive int NOT NULL REFERENCES archives,
    LIKE held_sums,
    PRIMARY KEY (archive, level, start, what, name)
);
