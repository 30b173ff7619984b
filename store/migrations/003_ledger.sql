-- The ledger in whole numbers. The new columns are null where an older batchd wrote the charge, or still does: the view
-- ledger says what those are worth, so no row is rewritten here.
ALTER TABLE charges
    ADD COLUMN seq            bigint, -- of the event that ended the attempt; null: not in usage_hours yet; 0: is there already
    ADD COLUMN project        text,
    ADD COLUMN image          text,
    ADD COLUMN nodes          text,   -- slots by node, 'n1=4,n2=2'
    ADD COLUMN gpu_slices     text,   -- 1/100 fGPU by the GPU's UUID, likewise
    ADD COLUMN outcome        text,
    ADD COLUMN verdict        text,
    ADD COLUMN slots          bigint,
    ADD COLUMN memory         bigint, -- bytes
    ADD COLUMN fgpu           bigint, -- 1/100 fGPU
    ADD COLUMN gpus           bigint, -- whole ones
    ADD COLUMN consumables    text,   -- 'licence=2'
    ADD COLUMN suspended_ms   bigint,
    ADD COLUMN waited_ms      bigint,
    ADD COLUMN run_limit_ms   bigint,
    ADD COLUMN avg_memory     bigint,
    ADD COLUMN gpu_memory     bigint, -- the peak of a slice
    ADD COLUMN sm_ns          bigint,
    ADD COLUMN sm_measured_ns bigint,
    ADD CONSTRAINT amounts_are_positive CHECK (slots >= 0 AND memory >= 0 AND fgpu >= 0 AND gpus >= 0 AND suspended_ms >= 0 AND waited_ms >= 0),
    ADD CONSTRAINT began_before_it_ended CHECK (seq IS NULL OR seq = 0 OR began <= ended);

CREATE INDEX charges_seq ON charges USING brin (seq) WITH (pages_per_range = 16, autosummarize = on);
CREATE INDEX charges_older ON charges (job) WHERE seq IS NULL; -- empty, but for the charges of an older batchd

-- What was held, in integers: an amount, for ms milliseconds from began_ms to ended_ms (since 1970, UTC). An older
-- batchd kept amounts times seconds only; the amount is the quotient, which is whole.
CREATE VIEW ledger AS
SELECT c.seq, c.job, c.idx, c.attempt, c.user_name, coalesce(nullif(c.account, ''), 'default') AS account, c.queue,
    coalesce(c.project, '') AS project, coalesce(c.image, '') AS image, coalesce(c.nodes, '') AS nodes, coalesce(c.gpu_slices, '') AS gpu_slices,
    coalesce(c.outcome, '') AS outcome, coalesce(c.verdict, '') AS verdict, c.began, c.ended, t.began_ms, t.ended_ms, t.ended_ms - t.began_ms AS ms,
    coalesce(c.slots, CASE WHEN t.ended_ms > t.began_ms THEN round(c.slot_seconds / extract(epoch FROM c.ended - c.began)::float8) ELSE 0 END)::bigint AS slots,
    coalesce(c.fgpu, CASE WHEN t.ended_ms > t.began_ms THEN round(100 * c.fgpu_seconds / extract(epoch FROM c.ended - c.began)::float8) ELSE 0 END)::bigint AS fgpu,
    coalesce(c.gpus, 0) AS gpus, coalesce(c.memory, 0) AS memory, (coalesce(c.memory, 0) + 1048575) / 1048576 AS memory_mib,
    coalesce(c.consumables, '') AS consumables, coalesce(c.suspended_ms, 0) AS suspended_ms, coalesce(c.waited_ms, 0) AS waited_ms,
    coalesce(c.run_limit_ms, 0) AS run_limit_ms, c.cpu_ns, c.max_memory, coalesce(c.avg_memory, 0) AS avg_memory,
    coalesce(c.gpu_memory, 0) AS gpu_memory, coalesce(c.sm_ns, 0) AS sm_ns, coalesce(c.sm_measured_ns, 0) AS sm_measured_ns,
    c.slots IS NULL AS older, c.slot_seconds, c.fgpu_seconds
FROM charges c CROSS JOIN LATERAL (SELECT
    floor(extract(epoch FROM least(coalesce(c.began, c.ended), c.ended)) * 1000)::bigint AS began_ms,
    floor(extract(epoch FROM c.ended) * 1000)::bigint AS ended_ms) t;

-- Sums of ledger by hour (UTC). Amounts times time are cut at the hours, exactly; what is only known of an attempt as a
-- whole counts in the hour in which it ended. Amounts times milliseconds: fgpu_ms in 1/100 fGPU.
CREATE TABLE usage_hours (
    hour          timestamptz NOT NULL,
    account       text NOT NULL,
    user_name     text NOT NULL,
    queue         text NOT NULL,
    ms            numeric NOT NULL, -- cut at the hours: these five
    slot_ms       numeric NOT NULL,
    fgpu_ms       numeric NOT NULL,
    gpu_ms        numeric NOT NULL,
    memory_mib_ms numeric NOT NULL,
    attempts      bigint NOT NULL,  -- in the hour of the end: these
    done          bigint NOT NULL,
    exited        bigint NOT NULL,  -- ended as EXIT
    suspended_ms  numeric NOT NULL,
    waited_ms     numeric NOT NULL,
    cpu_ns        numeric NOT NULL,
    sm_ns         numeric NOT NULL,
    PRIMARY KEY (hour, account, user_name, queue)
) WITH (fillfactor = 70);

-- Custom consumables likewise: quantity times milliseconds.
CREATE TABLE consumable_hours (
    hour      timestamptz NOT NULL,
    account   text NOT NULL,
    user_name text NOT NULL,
    queue     text NOT NULL,
    name      text NOT NULL,
    amount_ms numeric NOT NULL,
    PRIMARY KEY (hour, account, user_name, queue, name)
) WITH (fillfactor = 70);

-- Charges of events up to seq are in usage_hours, and no others but those with seq 0.
CREATE TABLE usage_mark (
    one bool PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
);
INSERT INTO usage_mark (seq) VALUES (0);

-- The hours that a charge touches, with the time that it held in each.
CREATE FUNCTION hours_of(began_ms bigint, ended_ms bigint, OUT hour timestamptz, OUT ms bigint) RETURNS SETOF record
LANGUAGE sql IMMUTABLE ROWS 2 AS $$
    SELECT to_timestamp(h * 3600), least(ended_ms, (h + 1) * 3600000) - greatest(began_ms, h * 3600000)
    FROM generate_series(floor(began_ms / 3600000.0)::bigint, greatest(floor((ended_ms - 1) / 3600000.0), floor(began_ms / 3600000.0))::bigint) h
$$;
