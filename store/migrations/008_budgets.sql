-- The parts that a charge touches, with the time that it held in each. Cuts are ascending moments in milliseconds since 1970, like
-- those of the charge; part i is not before the i-th of them, and before the next.
CREATE FUNCTION parts_of(began_ms bigint, ended_ms bigint, cuts bigint[], OUT part int, OUT ms bigint) RETURNS SETOF record
LANGUAGE sql IMMUTABLE ROWS 2 AS $$
    SELECT i, least(ended_ms, cuts[i + 1]) - greatest(began_ms, cuts[i])
    FROM generate_series(width_bucket(began_ms, cuts), width_bucket(ended_ms - 1, cuts)) i WHERE ended_ms > began_ms
$$;
