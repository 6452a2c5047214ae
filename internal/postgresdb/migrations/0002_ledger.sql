-- Work that happens once, by ledger and key. Names are bytes, since they may be any. Rows
-- are written at their begin and their end: room on the page keeps the end from touching
-- the indexes.
CREATE TABLE tidemill_ledger (
	ledger  text NOT NULL,
	key     bytea NOT NULL,
	tenant  bytea NOT NULL,
	type    bytea NOT NULL,
	print   bytea,
	payload bytea,
	created timestamptz NOT NULL,
	state   smallint NOT NULL,
	holder  bytea NOT NULL,
	token   bigint NOT NULL,
	tries   integer NOT NULL,
	started timestamptz NOT NULL,
	until   timestamptz NOT NULL,
	call    bigint NOT NULL,
	cut     boolean NOT NULL DEFAULT false,
	ended   timestamptz,
	result  bytea,
	err     bytea NOT NULL DEFAULT '',
	PRIMARY KEY (ledger, key)
) WITH (fillfactor = 60);
-- By creation. Its first column is an expression that only listings use: a lookup by key
-- must not be planned through this index, which looks as good while the table is empty.
CREATE INDEX tidemill_ledger_created ON tidemill_ledger((ledger || ''), created);
CREATE SEQUENCE tidemill_ledger_token;
