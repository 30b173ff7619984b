-- The first schema. Bodies are json, not jsonb: nothing here looks into them, json keeps the text exactly as
-- written (a retried batch is compared with it), takes \u0000 in a user's words, and costs less to write.

CREATE TABLE meta (
    one        bool PRIMARY KEY DEFAULT true CHECK (one), -- exactly one row
    cluster_id uuid NOT NULL DEFAULT gen_random_uuid(),
    created    timestamptz NOT NULL DEFAULT now()
);
INSERT INTO meta DEFAULT VALUES;

-- A renewal changes expires only; a change of leader changes the key (name, term). So a commit that holds the row
-- FOR KEY SHARE stops a takeover, but never a renewal.
CREATE TABLE leases (
    name    text PRIMARY KEY,
    holder  text NOT NULL,
    term    bigint NOT NULL CHECK (term > 0),
    expires timestamptz NOT NULL,
    UNIQUE (name, term)
) WITH (fillfactor = 50);

CREATE TABLE events (
    seq     bigint PRIMARY KEY CHECK (seq > 0),
    term    bigint NOT NULL,
    at      timestamptz NOT NULL,
    job     bigint NOT NULL, -- 0: of a node or a queue
    idx     int NOT NULL,
    by_user text NOT NULL,
    kind    text NOT NULL,
    body    json NOT NULL
);
CREATE INDEX events_job ON events (job, seq) WHERE job <> 0;

CREATE TABLE jobs (
    id          bigint PRIMARY KEY CHECK (id > 0),
    owner       text NOT NULL,
    queue       text NOT NULL,
    name        text NOT NULL,
    submitted   timestamptz NOT NULL,
    token       text NOT NULL,
    position    bigint NOT NULL,
    first_state text NOT NULL CHECK (first_state IN ('PEND', 'PSUSP')), -- of elements that have no row
    script      text NOT NULL, -- blobs; '' is none
    env         text NOT NULL,
    spec        json NOT NULL,
    plan        json NOT NULL,
    identity    json NOT NULL
);
CREATE UNIQUE INDEX jobs_token ON jobs (owner, token) WHERE token <> '';

-- Only elements that have left their first state: an array of 10,000 is one row of jobs until it starts.
-- The fillfactor leaves room for the updates of a run, which touch no index.
CREATE TABLE elements (
    job          bigint NOT NULL,
    idx          int NOT NULL CHECK (idx >= 0),
    state        text NOT NULL,
    attempts     int NOT NULL CHECK (attempts >= 0),
    live_attempt int,
    since        timestamptz NOT NULL,
    attempt      json, -- the present or last one
    result       json,
    more         json, -- what is rarely set
    PRIMARY KEY (job, idx),
    CONSTRAINT known_state CHECK (state IN ('PEND', 'PSUSP', 'RUN', 'USUSP', 'SSUSP', 'DONE', 'EXIT', 'UNKWN', 'ZOMBI')),
    CONSTRAINT final_has_result CHECK ((state IN ('DONE', 'EXIT')) = (result IS NOT NULL)),
    CONSTRAINT live_has_attempt CHECK (
        (state IN ('RUN', 'USUSP', 'SSUSP', 'UNKWN', 'ZOMBI')) = (live_attempt IS NOT NULL)
        AND (live_attempt IS NULL OR live_attempt = attempts AND attempt IS NOT NULL))
) WITH (fillfactor = 70);

CREATE TABLE nodes (
    id          text PRIMARY KEY,
    slots       int NOT NULL CHECK (slots >= 0),
    memory      bigint NOT NULL CHECK (memory >= 0),
    used_slots  int NOT NULL,
    used_memory bigint NOT NULL,
    row         json NOT NULL, -- the node; what is held in it may be old: the columns say, and a Book counts it from the live attempts
    CONSTRAINT slots_fit CHECK (used_slots BETWEEN 0 AND slots),
    CONSTRAINT memory_fits CHECK (used_memory BETWEEN 0 AND memory)
) WITH (fillfactor = 50);

CREATE TABLE gpus (
    node     text NOT NULL,
    uuid     text NOT NULL,
    model    text NOT NULL,
    capacity bigint NOT NULL CHECK (capacity >= 0), -- 1/100 fGPU, as every amount
    used     bigint NOT NULL,
    PRIMARY KEY (node, uuid),
    CONSTRAINT fgpu_fits CHECK (used BETWEEN 0 AND capacity)
) WITH (fillfactor = 50);

-- What live attempts hold.
CREATE TABLE slices (
    job      bigint NOT NULL,
    idx      int NOT NULL,
    attempt  int NOT NULL CHECK (attempt > 0),
    node     text NOT NULL,
    uuid     text NOT NULL,
    amount   bigint NOT NULL CHECK (amount > 0),
    memory   bigint NOT NULL CHECK (memory >= 0),
    sm_share int NOT NULL CHECK (sm_share BETWEEN 0 AND 10000),
    mode     text NOT NULL,
    PRIMARY KEY (job, idx, attempt, node, uuid)
);
CREATE INDEX slices_gpu ON slices (node, uuid);

-- gpus.used is what the Book says. This sums what was really given, once per statement, and is the foreign key to
-- gpus as well: a real one would look up and lock the GPU once more for each row. LATERAL keeps it at
-- one index look-up per GPU, however many slices there are.
CREATE FUNCTION check_slices() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bad record;
BEGIN
    SELECT a.node, a.uuid, g.capacity, given.total INTO bad
    FROM (SELECT DISTINCT node, uuid FROM added) a
    LEFT JOIN gpus g USING (node, uuid)
    CROSS JOIN LATERAL (SELECT sum(s.amount) AS total FROM slices s WHERE s.node = a.node AND s.uuid = a.uuid) given
    WHERE g.capacity IS NULL OR given.total > g.capacity LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'slices of GPU % on node % add up to % of %', bad.uuid, bad.node, bad.total, coalesce(bad.capacity, 0)
            USING ERRCODE = 'check_violation', CONSTRAINT = 'slices_fit', TABLE = 'slices';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER slices_fit AFTER INSERT ON slices
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION check_slices();

CREATE TABLE charges (
    job          bigint NOT NULL,
    idx          int NOT NULL,
    attempt      int NOT NULL CHECK (attempt > 0),
    user_name    text NOT NULL,
    account      text NOT NULL,
    queue        text NOT NULL,
    began        timestamptz, -- null: the command never ran
    ended        timestamptz NOT NULL,
    slot_seconds float8 NOT NULL CHECK (slot_seconds >= 0),
    fgpu_seconds float8 NOT NULL CHECK (fgpu_seconds >= 0),
    cpu_ns       bigint NOT NULL,
    max_memory   bigint NOT NULL,
    PRIMARY KEY (job, idx, attempt)
);
-- Charges come in the order of their ends, so a block range index finds a period and costs next to nothing to keep.
CREATE INDEX charges_ended ON charges USING brin (ended) WITH (pages_per_range = 16, autosummarize = on);
CREATE INDEX charges_user ON charges (user_name, ended);

-- Jobs that left the Book: what bhist finds them by. Their events tell the rest.
CREATE TABLE history (
    job       bigint PRIMARY KEY,
    owner     text NOT NULL,
    queue     text NOT NULL, -- name and queue as they were last
    name      text NOT NULL,
    token     text NOT NULL,
    submitted timestamptz NOT NULL,
    ended     timestamptz NOT NULL
);
CREATE INDEX history_owner ON history (owner, ended);
CREATE INDEX history_ended ON history USING brin (ended) WITH (pages_per_range = 16, autosummarize = on);
CREATE INDEX history_token ON history (owner, token) WHERE token <> '';

CREATE TABLE queue_states (
    name     text PRIMARY KEY,
    closed   bool NOT NULL,
    inactive bool NOT NULL,
    reason   text NOT NULL
);

CREATE TABLE blobs (
    hash    text PRIMARY KEY,
    data    bytea NOT NULL,
    created timestamptz NOT NULL DEFAULT now(), -- or used again, to the hour
    CONSTRAINT hash_is_of_data CHECK (hash = encode(sha256(data), 'hex'))
);

-- The first statement of each commit. first_seq 0: the batch has no events.
CREATE FUNCTION guard_commit(lease text, my_term bigint, first_seq bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    last_seq bigint;
BEGIN
    PERFORM 1 FROM leases WHERE name = lease AND term = my_term FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'term % is over', my_term USING ERRCODE = 'FS001';
    END IF;
    IF first_seq = 0 THEN
        RETURN;
    END IF;
    SELECT coalesce(max(seq), 0) INTO last_seq FROM events;
    IF first_seq <= last_seq THEN
        RAISE EXCEPTION 'event % is there already', first_seq USING ERRCODE = 'FS002';
    ELSIF first_seq > last_seq + 1 THEN
        RAISE EXCEPTION 'event % would leave a gap after %', first_seq, last_seq USING ERRCODE = 'FS003';
    END IF;
END $$;
