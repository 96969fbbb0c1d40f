-- depends: 0030.task
-- Conversations: who talks, and what was said, in its order.

CREATE TABLE chat_session (
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL REFERENCES tenant (id) ON DELETE CASCADE,
    user_id     text CHECK (length(user_id) BETWEEN 1 AND 255),  -- whose it is, alone; NULL: the command line
    created_at  timestamptz NOT NULL,
    last_number integer NOT NULL DEFAULT 0 CHECK (last_number >= 0),  -- of its messages; to add one is to lock this row
    UNIQUE (tenant_id, id)
);
CREATE INDEX chat_session_by_user ON chat_session (tenant_id, user_id, created_at DESC, id DESC);

-- A job is a task of one user's message, and has at most one answer. There is no foreign key to it: tasks are purged, and
-- what was said stays.
CREATE TABLE chat_message (
    id         uuid PRIMARY KEY DEFAULT uuidv7(),
    tenant_id  uuid NOT NULL,
    session_id uuid NOT NULL,
    number     integer NOT NULL CHECK (number > 0),
    role       text NOT NULL CHECK (role IN ('user', 'assistant')),
    content    text NOT NULL CHECK (content <> ''),
    job_id     uuid NOT NULL,
    tokens     integer NOT NULL CHECK (tokens > 0),  -- as estimated
    created_at timestamptz NOT NULL,
    UNIQUE (session_id, number),
    UNIQUE (job_id, role),
    FOREIGN KEY (tenant_id, session_id) REFERENCES chat_session (tenant_id, id) ON DELETE CASCADE
);

DO $security$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['chat_session', 'chat_message'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format($policy$CREATE POLICY own_tenant ON %I TO counterfoil_worker
            USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)$policy$, name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_worker', name);
    END LOOP;
    GRANT UPDATE (last_number) ON chat_session TO counterfoil_worker;
    -- Delivery sees whose turn it is, and nothing that was said.
    CREATE POLICY delivery ON chat_message FOR SELECT TO counterfoil_delivery USING (true);
    GRANT SELECT (tenant_id, session_id, number, role, job_id) ON chat_message TO counterfoil_delivery;
END
$security$;
