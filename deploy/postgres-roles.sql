-- Two Postgres users for deadman: deadman_owner migrates and owns the schema, deadman runs nodes and can only change
-- rows. As a superuser: psql --file=postgres-roles.sql, then \password deadman_owner and \password deadman.
-- For an existing database, omit CREATE DATABASE, connect to it, and first transfer its objects to deadman_owner
-- (REASSIGN OWNED BY previous_user TO deadman_owner).

CREATE ROLE deadman_owner LOGIN;
CREATE ROLE deadman LOGIN;

CREATE DATABASE deadman OWNER deadman_owner;

\connect deadman

REVOKE ALL ON DATABASE deadman FROM PUBLIC;
GRANT CONNECT ON DATABASE deadman TO deadman;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
ALTER SCHEMA public OWNER TO deadman_owner;
GRANT USAGE ON SCHEMA public TO deadman;

-- Existing objects, and those that deadman_owner will create.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO deadman;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO deadman;
ALTER DEFAULT PRIVILEGES FOR ROLE deadman_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO deadman;
ALTER DEFAULT PRIVILEGES FOR ROLE deadman_owner IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO deadman;

SET ROLE deadman_owner;

-- History has a partition per day, which nodes create a week ahead. This function lets a user without DDL rights do so.
CREATE FUNCTION deadman_make_day(day date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
	name text := 'history_' || to_char(day, 'YYYYMMDD');
	today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
	IF day < today - 1 OR day > today + 30 THEN
		RAISE EXCEPTION 'history: % is not a day that comes soon', day;
	END IF;
	EXECUTE format('CREATE TABLE %I (LIKE history INCLUDING ALL EXCLUDING INDEXES)', name);
	EXECUTE format('ALTER TABLE history ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
		to_char(day, 'YYYY-MM-DD 00:00:00+00'), to_char(day + 1, 'YYYY-MM-DD 00:00:00+00'));
END
$$;

-- This one drops partitions of past days.
CREATE FUNCTION deadman_drop_day(day date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
	IF day >= (now() AT TIME ZONE 'UTC')::date THEN
		RAISE EXCEPTION 'history: % is not over', day;
	END IF;
	EXECUTE format('DROP TABLE %I', 'history_' || to_char(day, 'YYYYMMDD'));
END
$$;

REVOKE ALL ON FUNCTION deadman_make_day(date), deadman_drop_day(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION deadman_make_day(date), deadman_drop_day(date) TO deadman;

RESET ROLE;
