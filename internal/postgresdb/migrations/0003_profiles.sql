-- Profiles of customers. Attributes are the values as one JSON object for readers by SQL,
-- byte for byte as they came but for escapes that a text cannot hold; registers are what
-- the rules store. Rows are rewritten often: room on their page keeps that from touching
-- the index. Each table has one index that a lookup can be planned through, whatever its
-- statistics say.
CREATE TABLE tidemill_profile (
	tenant     text COLLATE "C" NOT NULL,
	id         uuid NOT NULL,
	created    timestamptz NOT NULL,
	updated    timestamptz NOT NULL,
	attributes json NOT NULL DEFAULT '{}',
	registers  bytea,
	PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);

-- Whose an identity is: kind 1 is an external id, 2 an email, 3 a phone. Without a foreign
-- key, whose checks would cost more than the rows: who attaches holds the profile.
CREATE TABLE tidemill_profile_identity (
	tenant  text COLLATE "C" NOT NULL,
	kind    smallint NOT NULL,
	value   text COLLATE "C" NOT NULL,
	profile uuid NOT NULL,
	PRIMARY KEY (tenant, kind, value)
);
CREATE INDEX tidemill_profile_identity_profile ON tidemill_profile_identity(profile);
