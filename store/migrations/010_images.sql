-- The catalogue: one row an image, about 500 bytes and its labels; those that were removed are kept whole while a job needs them.
CREATE TABLE images (
    id      bigint PRIMARY KEY CHECK (id > 0),
    owner   text NOT NULL,    -- '' for the site's
    name    text NOT NULL,    -- with its tag
    digest  text NOT NULL CHECK (digest LIKE 'sha256:%'),
    removed boolean NOT NULL,
    row     json              -- null: forgotten; the row stays, so that no number is given twice
);
CREATE UNIQUE INDEX images_name ON images (owner, name) WHERE NOT removed;

-- Requests to make an image of a running session. A session has at most one under way.
CREATE TABLE image_commits (
    id    bigint PRIMARY KEY CHECK (id > 0),
    owner text NOT NULL,
    job   bigint NOT NULL,
    idx   int NOT NULL,
    open  boolean NOT NULL,
    row   json NOT NULL
);
CREATE UNIQUE INDEX image_commits_open ON image_commits (job, idx) WHERE open;
