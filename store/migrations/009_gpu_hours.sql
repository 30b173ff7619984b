-- What the GPUs of nodes that were up were in an hour (UTC), as the planner saw them: sums of 1/100 fGPU × milliseconds.
-- Each leader has rows of its own, with all that it has seen of the hour so far, and writes them again as that grows: a
-- write that is repeated counts once. Reports add up the rows of an hour. What a leader had not written when it was killed,
-- a minute at the most, is not known, nor is the time without a leader; ms says how much is.
-- 24 rows of about 80 bytes a day, and one more for each change of leader; none without GPUs. They are kept.
CREATE TABLE gpu_hours (
    hour        timestamptz NOT NULL,
    term        bigint NOT NULL,
    ms          bigint NOT NULL CHECK (ms BETWEEN 0 AND 3600000),
    capacity_ms bigint NOT NULL,
    free_ms     bigint NOT NULL,
    lost_ms     bigint NOT NULL, -- of what was free, to fragmentation
    PRIMARY KEY (hour, term),
    CONSTRAINT lost_is_free_is_there CHECK (lost_ms >= 0 AND lost_ms <= free_ms AND free_ms <= capacity_ms)
);
