-- depends: 0089.cluster_list
-- The timeline of an unassigned dead letter shows the attempts of its work item. The delivery role may not read errors
-- of attempts, because those of a tenant can quote its documents. This function returns attempts without a tenant only.

CREATE FUNCTION unassigned_attempts(of_worker text, of_work uuid, most integer)
RETURNS TABLE (revision integer, number integer, began_at timestamptz, ended_at timestamptz, outcome text,
               error_type text, error text, next_attempt_at timestamptz, trace_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $body$
    SELECT a.revision, a.number, a.began_at, a.ended_at, a.outcome, a.error_type, a.error, a.next_attempt_at, a.trace_id
    FROM work_attempt a
    WHERE a.work_id = of_work AND a.worker = of_worker AND a.tenant_id IS NULL
    ORDER BY a.ended_at DESC, a.id DESC LIMIT most
$body$;
REVOKE ALL ON FUNCTION unassigned_attempts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION unassigned_attempts TO counterfoil_delivery;
