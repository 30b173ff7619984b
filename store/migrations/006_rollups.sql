-- Sums that reports are made of, so that they need not read the charges: of what ended in an interval (ended_sums), and of what
-- nodes and GPUs gave in one (held_sums). Both are added to behind the commits, as usage_hours is, and compared with the
-- charges by store.CheckRollUp. Months, days, hours and quarters of hours are those of UTC.

-- New columns are null in what an older batchd wrote, or still writes. submitted is then that of the job.
ALTER TABLE charges
    ADD COLUMN submitted    timestamptz, -- the job
    ADD COLUMN gpu_capacity bigint;      -- 1/100 fGPU of the first GPU, as it was when the attempt ended; null: 100

-- GPUs that are worth something else are rare; without one nothing is rewritten.
UPDATE charges c SET gpu_capacity = g.capacity
FROM (SELECT uuid, max(capacity) AS capacity FROM gpus WHERE capacity > 0 GROUP BY uuid) g
WHERE g.capacity <> 100 AND c.sm_measured_ns > 0 AND g.uuid = split_part(c.gpu_slices, '=', 1);

-- seq is now, beside the number of an event: null: an older batchd's charge, in no rollup yet; 0: in usage_hours; -1: in all.
ALTER TABLE charges DROP CONSTRAINT began_before_it_ended;
ALTER TABLE charges ADD CONSTRAINT began_before_it_ended CHECK (seq IS NULL OR seq <= 0 OR began <= ended);
CREATE INDEX charges_half ON charges (job) WHERE seq = 0; -- empty, but for the charges of an older batchd

-- A charge adds to four rows: of the month and the day, which have the whole key, and of the hour and the quarter of an hour,
-- which have none ('' in all of it) and are for calendars, in any time zone. So there are 120 rows a day, and
-- one for each user with their account, queue, project and image, of about 400 bytes; at worst two for each job, which is
-- as much as its charge. They are kept when charges go.
CREATE TABLE ended_sums (
    level            text COLLATE "C" NOT NULL CHECK (level IN ('month', 'day', 'hour', 'quarter')),
    start            timestamptz NOT NULL,
    account          text COLLATE "C" NOT NULL,
    user_name        text COLLATE "C" NOT NULL,
    queue            text COLLATE "C" NOT NULL,
    project          text COLLATE "C" NOT NULL,
    image            text COLLATE "C" NOT NULL,
    attempts         bigint NOT NULL,
    jobs             bigint NOT NULL,  -- attempts with which an element was over: of them
    done             bigint NOT NULL,
    slot_ms          numeric NOT NULL, -- amounts times milliseconds
    fgpu_ms          numeric NOT NULL, -- of 1/100 fGPU
    gpu_ms           numeric NOT NULL,
    byte_ms          numeric NOT NULL,
    used_byte_ms     numeric NOT NULL, -- the peak
    measured_fgpu_ms numeric NOT NULL, -- where the use of the GPU was measured
    cpu_ns           numeric NOT NULL,
    sm_ns            numeric NOT NULL,
    sm_asked_ns      numeric NOT NULL, -- what the slice may have used while it was measured
    starts           bigint NOT NULL,  -- attempts whose wait is known
    wait_ms          numeric NOT NULL,
    wait_max_ms      bigint,
    waits            bigint[] NOT NULL, -- how many of each length: wait_bucket × 2^40 + number, ascending
    -- What bacct says: of those that count in jobs. Microseconds; hog and expansion factors in billionths.
    job_started      bigint NOT NULL,
    job_cpu_ns       numeric NOT NULL,
    job_cpu_min      bigint,
    job_cpu_max      bigint,
    job_wait_us      numeric NOT NULL,
    job_wait_min     bigint,
    job_wait_max     bigint,
    job_turn_us      numeric NOT NULL,
    job_turn_min     bigint,
    job_turn_max     bigint,
    job_hog          numeric NOT NULL,
    job_hog_min      numeric,
    job_hog_max      numeric,
    job_expansion    numeric NOT NULL,
    job_run_us       numeric NOT NULL,
    first_ended      timestamptz,
    last_ended       timestamptz,
    PRIMARY KEY (level, start, account, user_name, queue, project, image),
    CHECK (attempts >= jobs AND jobs >= done AND done >= 0 AND jobs >= job_started),
    CHECK (level IN ('month', 'day') OR (account, user_name, queue, project, image) = ('', '', '', '', ''))
) WITH (fillfactor = 80, toast_tuple_target = 8160);
ALTER TABLE ended_sums ALTER COLUMN waits SET STORAGE MAIN; -- in the row: reports read many

-- What nodes gave in slots and GPUs in 1/100 fGPU, times milliseconds, cut exactly at the ends of days. A row of about 100 bytes for
-- each node and GPU that gave something, by day and by month: 330,000 days a year with 100 nodes of 8 GPUs.
CREATE TABLE held_sums (
    level     text COLLATE "C" NOT NULL CHECK (level IN ('month', 'day')),
    start     timestamptz NOT NULL,
    what      text COLLATE "C" NOT NULL CHECK (what IN ('node', 'gpu')),
    name      text COLLATE "C" NOT NULL,
    amount_ms numeric NOT NULL CHECK (amount_ms >= 0),
    PRIMARY KEY (level, start, what, name)
) WITH (fillfactor = 80);

-- Charges of events up to seq are in ended_sums and held_sums, and no others but those with seq -1.
CREATE TABLE ended_mark (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
);
INSERT INTO ended_mark (seq) VALUES (0);

-- The lengths of waits that count as one, given in tenths of a second: each up to 3.2 s, and above that 32 to each doubling. In SQL,
-- as package reports has it in Go (WaitBucket).
CREATE FUNCTION wait_bucket(tenths int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(27 - position(B'1' IN (tenths | 1)::bit(32)), 0) * 32 + (tenths >> greatest(27 - position(B'1' IN (tenths | 1)::bit(32)), 0))
$$;

-- What a slice may have used of its GPU while it was measured: its share. The GPUs of an attempt are taken to be like its first.
CREATE FUNCTION sm_asked(fgpu bigint, gpu_slices text, gpu_capacity bigint, sm_measured_ns bigint) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(fgpu, 0)::float8 / coalesce(nullif(gpu_capacity, 0), 100) /
        (CASE strpos(gpu_slices, ',') WHEN 0 THEN 1 ELSE 1 + length(gpu_slices) - length(replace(gpu_slices, ',', '')) END) * sm_measured_ns
$$;
CREATE FUNCTION held_ms(began timestamptz, ended timestamptz) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT date_part('epoch', ended - began) * 1000
$$;
CREATE FUNCTION given_ms(amount bigint, began timestamptz, ended timestamptz) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(amount * held_ms(began, ended), 0)
$$;
CREATE FUNCTION unused_fgpu_ms(fgpu bigint, began timestamptz, ended timestamptz, gpu_slices text, gpu_capacity bigint, sm_ns bigint, sm_measured_ns bigint)
RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(CASE WHEN sm_measured_ns > 0 THEN fgpu * held_ms(began, ended)
        * greatest(1 - sm_ns / nullif(sm_asked(fgpu, gpu_slices, gpu_capacity, sm_measured_ns), 0), 0) END, 0)
$$;
CREATE FUNCTION unused_slot_ms(slots bigint, began timestamptz, ended timestamptz, cpu_ns bigint) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT greatest(given_ms(slots, began, ended) - cpu_ns / 1e6::float8, 0)
$$;

-- The attempts that were given most, and that left most unused: the first rows of the reports by job. Some 80 bytes a charge.
CREATE INDEX charges_given ON charges (given_ms(fgpu, began, ended) DESC, given_ms(slots, began, ended) DESC);
CREATE INDEX charges_unused ON charges (unused_fgpu_ms(fgpu, began, ended, gpu_slices, gpu_capacity, sm_ns, sm_measured_ns) DESC, unused_slot_ms(slots, began, ended, cpu_ns) DESC);
-- An index in order is of no use to find what is rare: the planner must know how rare it is.
CREATE STATISTICS charges_account ON (coalesce(nullif(account, ''), 'default')) FROM charges;
CREATE STATISTICS charges_project ON (coalesce(project, '')) FROM charges;

-- Attempts of more than a day: what lies in a period though it ended long after it.
CREATE INDEX charges_long ON charges (ended) WHERE ended - began > interval '1 day';
