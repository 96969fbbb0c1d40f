-- The database roles. Roles belong to the whole server, not to one database, so this file is separate from the numbered
-- migrations and runs before them each time. Every statement is idempotent.
--
--   counterfoil_owner     owns every table; migrations run as it. Row-level security binds it too (FORCE).
--   counterfoil_delivery  cannot log in. Sees the life cycle of every tenant's work, and none of its content, with one
--                         exception: task_messages() composes messages of tasks with their payloads, because this role
--                         sends them. It and the maintenance can read a payload while an outbox row refers to its task.
--   counterfoil_worker    the functions that touch documents. Sees one tenant for each transaction, and takes the
--                         delivery role only explicitly (SET LOCAL ROLE), to claim a batch of several tenants' work.
--   counterfoil_api       the API: a worker that may also set up tenants.
--   counterfoil_maintenance    the functions that maintain delivery (watchdog, dead_letters). Always has the delivery role.
--                         It may insert outbox rows, so it can read the payload of any task.

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
            NULL;  -- another database of this server is being prepared at the same moment
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
    -- A temporary table would be a table of the caller's own, with triggers of its choice. No function needs one.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, counterfoil_owner', current_database());
    -- On RDS, a role that holds rds_iam signs in with a short-lived IAM token and has no password.
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_iam') THEN
        GRANT rds_iam TO counterfoil_worker, counterfoil_api, counterfoil_maintenance;
    END IF;
END
$grants$;

GRANT USAGE, CREATE ON SCHEMA public TO counterfoil_owner;

-- The type of embeddings. The extension is not trusted, so the owner of the tables cannot create it.
CREATE EXTENSION IF NOT EXISTS vector;
