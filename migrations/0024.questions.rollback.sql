DROP TABLE judgement_candidate, llm_day;
ALTER TABLE judgement
    DROP COLUMN prompt, DROP COLUMN system, DROP COLUMN asked, DROP COLUMN temperature, DROP COLUMN input_tokens,
    DROP COLUMN output_tokens;
REVOKE UPDATE (outcome, input_tokens, output_tokens, latency_ms, cost_usd) ON llm_call FROM counterfoil_worker;
DROP INDEX llm_call_by_work;
-- A call that never ended failed, as far as anybody knows.
UPDATE llm_call SET outcome = coalesce(outcome, 'failed'), latency_ms = coalesce(latency_ms, 0)
WHERE outcome IS NULL OR latency_ms IS NULL;
ALTER TABLE llm_call ALTER COLUMN outcome SET NOT NULL, ALTER COLUMN latency_ms SET NOT NULL;
