-- The policy in force: accounts, users' shares, limits and budgets as one text. At most one row; its past is in the events.
CREATE TABLE policy (
    one     bool PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL CHECK (version > 0),
    text    text NOT NULL,
    by_user text NOT NULL,
    at      timestamptz NOT NULL
);
-- The audit of policies is a handful of rows among millions.
CREATE INDEX events_policy ON events (seq) WHERE kind = 'policy-set';
