-- Run this once, as a superuser or as the owner of the database, while connected to it:
--   $OWNER owns the tables. `tidemill postgres migrate` runs as this role, with each new version.
--   $ROLE is what the program runs as. It reads and writes rows, and makes and changes no table.
-- Then give both a password, in psql with \password.
DO $grants$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = trim('"' FROM '$OWNER')) THEN CREATE ROLE $OWNER LOGIN; END IF;
	IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = trim('"' FROM '$ROLE')) THEN CREATE ROLE $ROLE LOGIN; END IF;
	EXECUTE format('GRANT CONNECT ON DATABASE %I TO $OWNER, $ROLE', current_database());
END $grants$;
CREATE SCHEMA IF NOT EXISTS $SCHEMA;
GRANT USAGE, CREATE ON SCHEMA $SCHEMAS TO $OWNER;
GRANT USAGE ON SCHEMA $SCHEMAS TO $ROLE;

-- Tables that $OWNER will make.
ALTER DEFAULT PRIVILEGES FOR ROLE $OWNER IN SCHEMA $SCHEMAS GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO $ROLE;
ALTER DEFAULT PRIVILEGES FOR ROLE $OWNER IN SCHEMA $SCHEMAS GRANT USAGE ON SEQUENCES TO $ROLE;

-- Tables that are there. Our own change their owner. Those in the form of other programs (persons,
-- projects, …) keep theirs, but the first start adds columns to them, which their owner alone may:
-- run `tidemill postgres migrate` as that role, or make $OWNER their owner.
DO $grants$ DECLARE t record; BEGIN
	FOR t IN SELECT c.oid::regclass AS name, relkind FROM pg_class c
		WHERE relnamespace::regnamespace::text = '$SCHEMA' AND relkind IN ('r', 'v', 'S') AND relname LIKE 'tidemill\_%'
		AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype IN ('a', 'i')) LOOP
		EXECUTE format('ALTER TABLE %s OWNER TO $OWNER', t.name);
		IF t.relkind = 'S' THEN
			EXECUTE format('GRANT USAGE ON SEQUENCE %s TO $ROLE', t.name);
		ELSE
			EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO $ROLE', t.name);
		END IF;
	END LOOP;
	FOR t IN SELECT c.oid::regclass AS name FROM pg_class c
		WHERE relnamespace::regnamespace::text = 'public' AND relkind IN ('r', 'p')
		AND relname IN ('projects', 'persons', 'person_distinct_ids', 'event_definitions', 'property_definitions', 'event_properties') LOOP
		EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO $ROLE', t.name);
		EXECUTE format('GRANT SELECT, REFERENCES ON %s TO $OWNER', t.name);
	END LOOP;
END $grants$;
