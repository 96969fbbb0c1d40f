DELETE FROM change_allowance WHERE purpose = 'read';
ALTER TABLE change_allowance
    DROP CONSTRAINT change_allowance_tenant_id_user_hash_purpose_key,
    ADD UNIQUE NULLS NOT DISTINCT (tenant_id, user_hash),
    DROP COLUMN purpose;
