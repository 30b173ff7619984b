-- Advance reservations. One row of about 500 bytes each, more with many hosts; it goes when the reservation is
-- deleted or is over. That shares never exceed a node at any moment is Book.Reserve's word: it depends on the site's
-- time zone, which the database does not know.
CREATE TABLE reservations (
    id      text PRIMARY KEY CHECK (id <> ''),
    creator text NOT NULL,
    begins  timestamptz, -- null: it recurs, and row says when
    ends    timestamptz,
    row     json NOT NULL,
    CONSTRAINT begins_before_it_ends CHECK ((begins IS NULL) = (ends IS NULL) AND begins < ends IS NOT FALSE)
);
