-- Listings read the ledger in the order of an index, which has to be theirs exactly: where
-- entries are to be sorted for each page, all of the rest is read for each page.
CREATE INDEX tidemill_ledger_listing ON tidemill_ledger((ledger || ''), created, key);
DROP INDEX tidemill_ledger_created;

-- The ends of rows that were begun together come together, when none of them can make room
-- for another: so there has to be room for all.
ALTER TABLE tidemill_ledger SET (fillfactor = 45);
