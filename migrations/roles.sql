-- The database roles. Roles belong to the server, not to a database. Therefore, this file is separate from the numbered
-- migrations and runs before them each time. Every statement is idempotent.
--
--   counterfoil_owner     owns every table. Migrations run as this role. Row-level security applies to it too (FORCE).
--   counterfoil_delivery  cannot log in. Sees the states of all tenants' work items, but no content. There is one
--                         exception: task_messages() returns task messages with their payloads, because this role
--                         sends them. A payload can be read only while an unsent outbox row refers to its task.
--   counterfoil_worker    functions that process work items. A transaction sees one tenant. It switches to the delivery
--                         role only explicitly (SET LOCAL ROLE), to claim work items of several tenants together.
--   counterfoil_api       the API: a worker that may also set up tenants.
--   counterfoil_maintenance    functions that maintain delivery (watchdog, dead_letters). Always has the delivery role.
--                         Because it can insert outbox rows, it can read the payload of any task.

DO $roles$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN SELECT * FROM (VALUES ('counterfoil_owner', true), ('counterfoil_delivery', false),
                                        ('counterfoil_worker', true), ('counterfoil_api', true),
                                        ('counterfoil_maintenance', true)) AS v(name, login) LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted.name) THEN
                EXECUTE format('CREATE ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS', wanted.name);
            END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- the role was created concurrently, for another database on this server
        END;
    END LOOP;
END
$roles$;

ALTER ROLE counterfoil_owner LOGIN;
ALTER ROLE counterfoil_worker LOGIN NOINHERIT;
ALTER ROLE counterfoil_api LOGIN;
ALTER ROLE counterfoil_maintenance LOGIN;
GRANT counterfoil_delivery TO counterfoil_worker WITH INHERIT FALSE, SET TRUE;
GRANT counterfoil_worker TO counterfoil_api WITH INHERIT TRUE, SET FALSE;
GRANT counterfoil_delivery TO counterfoil_api WITH INHERIT FALSE, SET TRUE;
GRANT counterfoil_delivery TO counterfoil_maintenance WITH INHERIT TRUE, SET TRUE;
-- Migrations run as the owner. RDS's master user is not a superuser and requires the membership.
GRANT counterfoil_owner TO CURRENT_USER WITH INHERIT TRUE, SET TRUE;

DO $grants$
BEGIN
    EXECUTE format('GRANT CONNECT, CREATE ON DATABASE %I TO counterfoil_owner', current_database());
    -- A caller would own a temporary table and could add any trigger to it. No function uses temporary tables.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, counterfoil_owner', current_database());
    -- On RDS, a role that holds rds_iam signs in with a short-lived IAM token and has no password.
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_iam') THEN
        GRANT rds_iam TO counterfoil_worker, counterfoil_api, counterfoil_maintenance;
    END IF;
END
$grants$;

GRANT USAGE, CREATE ON SCHEMA public TO counterfoil_owner;

-- The type of embeddings. The extension is not trusted, so counterfoil_owner cannot create it.
CREATE EXTENSION IF NOT EXISTS vector;
