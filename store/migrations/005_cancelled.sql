-- Elements that ended without ever having run: they have no charge, but bacct counts them. One row of about 120 bytes each,
-- written with the end; kept like charges.
CREATE TABLE cancelled (
    job       bigint NOT NULL,
    idx       int NOT NULL,
    user_name text NOT NULL,
    account   text NOT NULL, -- as asked for at the submission: nothing was charged
    queue     text NOT NULL,
    project   text NOT NULL,
    name      text NOT NULL,
    submitted timestamptz NOT NULL,
    ended     timestamptz NOT NULL,
    PRIMARY KEY (job, idx)
);
CREATE INDEX cancelled_ended ON cancelled USING brin (ended) WITH (pages_per_range = 16, autosummarize = on);

-- Those of before, and what became of the attempts that an older batchd charged. The bodies are read as text: the
-- functions for json fail on \u0000 in a user's words. A quote within a text has a backslash before it, so no text can be
-- taken for a key.
INSERT INTO cancelled (job, idx, user_name, account, queue, project, name, submitted, ended)
SELECT e.job, e.idx, j.owner, coalesce(nullif(substring(s.body::text FROM '"account":"((?:[^"\\]|\\.)*)"'), ''), 'default'), j.queue,
    coalesce(substring(s.body::text FROM '"project":"((?:[^"\\]|\\.)*)"'), ''), j.name, j.submitted, e.at
FROM events e JOIN events s ON s.job = e.job AND s.job <> 0 AND s.kind = 'submitted'
JOIN (SELECT id, owner, queue, name, submitted FROM jobs UNION ALL SELECT job, owner, queue, name, submitted FROM history) j ON j.id = e.job
WHERE e.kind = 'ended' AND e.body::text NOT LIKE '%"attempt":%'
ON CONFLICT DO NOTHING;

UPDATE charges c SET outcome = CASE WHEN e.body::text LIKE '%"done":true%' THEN 'done' ELSE 'exit' END
FROM events e WHERE c.outcome IS NULL AND e.job = c.job AND e.job <> 0 AND e.idx = c.idx AND e.kind = 'ended'
    AND substring(e.body::text FROM '"attempt":(\d+)')::int = c.attempt;
