DROP POLICY past_keeping ON task;
CREATE POLICY past_keeping ON task AS RESTRICTIVE FOR DELETE TO counterfoil_keeper
    USING ((status = 'succeeded' OR status IS NULL) AND ended_at < now() - interval '90 days');
DROP INDEX dead_letter_by_settlement;
REVOKE DELETE ON dead_letter FROM counterfoil_keeper;
DROP POLICY past_keeping ON dead_letter;
ALTER TABLE dead_letter DROP purge_id;
DROP TABLE dead_letter_purge;
