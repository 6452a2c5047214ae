-- oldest program: 1
--
-- The tables of the facts. Where they exist already they stay as they are, with columns
-- added below; names and types of their own columns never change.

CREATE TABLE IF NOT EXISTS projects (
	id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	name       varchar(255) NOT NULL,
	token      varchar(255) NOT NULL UNIQUE,
	plan_id    uuid,
	timezone   varchar(64) NOT NULL DEFAULT 'UTC',
	created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now()
);

-- Rows are rewritten often: room on their page keeps that from touching the index.
CREATE TABLE IF NOT EXISTS persons (
	id         uuid PRIMARY KEY,
	project_id uuid NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
	properties jsonb NOT NULL DEFAULT '{}',
	created_at timestamptz NOT NULL DEFAULT now(),
	updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);

CREATE TABLE IF NOT EXISTS person_distinct_ids (
	id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	project_id  uuid NOT NULL,
	person_id   uuid NOT NULL REFERENCES persons(id) ON DELETE CASCADE,
	distinct_id varchar(400) NOT NULL,
	created_at  timestamptz NOT NULL DEFAULT now(),
	UNIQUE (project_id, distinct_id)
);

CREATE TABLE IF NOT EXISTS event_definitions (
	id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	project_id   uuid NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
	event_name   varchar(500) NOT NULL,
	description  text,
	tags         text[] NOT NULL DEFAULT '{}',
	verified     boolean NOT NULL DEFAULT false,
	last_seen_at timestamptz NOT NULL DEFAULT now(),
	created_at   timestamptz NOT NULL DEFAULT now(),
	updated_at   timestamptz NOT NULL DEFAULT now(),
	UNIQUE (project_id, event_name)
);

CREATE TABLE IF NOT EXISTS property_definitions (
	id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	project_id    uuid NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
	property_name varchar(500) NOT NULL,
	property_type varchar(20) NOT NULL DEFAULT 'event',
	value_type    varchar(20),
	is_numerical  boolean NOT NULL DEFAULT false,
	description   text,
	tags          text[] NOT NULL DEFAULT '{}',
	verified      boolean NOT NULL DEFAULT false,
	last_seen_at  timestamptz NOT NULL DEFAULT now(),
	created_at    timestamptz NOT NULL DEFAULT now(),
	updated_at    timestamptz NOT NULL DEFAULT now(),
	UNIQUE (project_id, property_name, property_type)
);

CREATE TABLE IF NOT EXISTS event_properties (
	id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	project_id    uuid NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
	event_name    varchar(500) NOT NULL,
	property_name varchar(500) NOT NULL,
	property_type varchar(20) NOT NULL DEFAULT 'event',
	last_seen_at  timestamptz NOT NULL DEFAULT now(),
	UNIQUE (project_id, event_name, property_name, property_type)
);

-- What the rules need beside the facts.
--   registers:  each property with the times of what was done to it; NULL: stored before
--               this product came, its properties have no times.
--   version:    how often the distinct id has moved to another person.
--   …_bytes:    the name, where the text column cannot hold it and has its hash.
ALTER TABLE persons ADD COLUMN IF NOT EXISTS identified boolean NOT NULL DEFAULT false;
ALTER TABLE persons ADD COLUMN IF NOT EXISTS registers bytea;
ALTER TABLE person_distinct_ids ADD COLUMN IF NOT EXISTS version bigint NOT NULL DEFAULT 0;
ALTER TABLE person_distinct_ids ADD COLUMN IF NOT EXISTS distinct_bytes bytea;
ALTER TABLE event_definitions ADD COLUMN IF NOT EXISTS event_bytes bytea;
ALTER TABLE property_definitions ADD COLUMN IF NOT EXISTS property_bytes bytea;
ALTER TABLE event_properties ADD COLUMN IF NOT EXISTS event_bytes bytea;
ALTER TABLE event_properties ADD COLUMN IF NOT EXISTS property_bytes bytea;

DO $$
DECLARE
	t text;
BEGIN
	-- The database makes ids that the earlier program of these tables made itself.
	FOREACH t IN ARRAY ARRAY['person_distinct_ids', 'event_definitions', 'property_definitions', 'event_properties'] LOOP
		IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = t::regclass AND attname = 'id'
			AND atttypid = 'uuid'::regtype AND NOT atthasdef AND attidentity = '') THEN
			EXECUTE format('ALTER TABLE %I ALTER COLUMN id SET DEFAULT gen_random_uuid()', t);
		END IF;
	END LOOP;
	-- Every merge reads the distinct ids of a person.
	IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
		WHERE i.indrelid = 'person_distinct_ids'::regclass AND a.attname = 'person_id' AND i.indpred IS NULL) THEN
		CREATE INDEX person_distinct_ids_person ON person_distinct_ids(person_id);
	END IF;
END $$;

-- Keys of projects: SHA-256. A token is printable ASCII; decode reads it as bytes.
CREATE TABLE @tidemill_project_keys (
	hash       bytea PRIMARY KEY,
	project_id uuid NOT NULL REFERENCES projects(id) ON DELETE CASCADE,
	created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS tidemill_projects_token_hash ON projects (sha256(decode(replace(token, '\', '\\'), 'escape')));

-- The outbox to the warehouse. Its numbers come from one row that is locked until the
-- commit: they become visible in their order, so that a reader never sees a number
-- before a smaller one.
CREATE TABLE @tidemill_person_overrides (
	seq         bigint PRIMARY KEY,
	project_id  uuid NOT NULL,
	distinct_id bytea NOT NULL,
	person_id   uuid NOT NULL,
	version     bigint NOT NULL
);
CREATE TABLE @tidemill_person_override_seq (
	one boolean PRIMARY KEY DEFAULT true CHECK (one),
	seq bigint NOT NULL
);
INSERT INTO @tidemill_person_override_seq(seq) VALUES (0);

-- Merges that failed, the oldest first; claim is a hash of their identity.
CREATE TABLE @tidemill_kept_merges (
	seq         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	claim       bytea NOT NULL UNIQUE,
	project_id  uuid NOT NULL,
	distinct_id bytea NOT NULL,
	other       bytea NOT NULL,
	event       uuid NOT NULL,
	force       boolean NOT NULL,
	at_milli    bigint NOT NULL
);

-- Work that happens once, by ledger and key. Names are bytes, since they may be any. Rows
-- are written at their begin and their end; rows that were begun together also end
-- together, when none of them can make room for another: so the page needs room for all of
-- them, which keeps the end from touching the indexes.
CREATE TABLE @tidemill_ledger (
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
) WITH (fillfactor = 45);
-- Listings read the ledger in the order of an index, which has to be exactly theirs: sorting
-- the entries of each page would read all of the rest for each page. Its first
-- column is an expression that only listings use: a lookup by key must not be planned
-- through this index, which looks as good while the table is empty.
CREATE INDEX tidemill_ledger_listing ON @tidemill_ledger((ledger || ''), created, key);
CREATE SEQUENCE @tidemill_ledger_token;
