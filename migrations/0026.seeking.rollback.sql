DROP TABLE key_loss;

ALTER TABLE document_key NO FORCE ROW LEVEL SECURITY;
ALTER TABLE document NO FORCE ROW LEVEL SECURITY;
INSERT INTO document_key (tenant_id, document_id, type, key)
SELECT DISTINCT k.tenant_id, k.document_id, 'deal:' || d.type, k.key
FROM document_key k
JOIN document d ON d.id = k.document_id
WHERE starts_with(k.type, 'seeks:')
ON CONFLICT DO NOTHING;

DELETE FROM document_key WHERE starts_with(type, 'seeks:');
ALTER TABLE document_key FORCE ROW LEVEL SECURITY;
ALTER TABLE document FORCE ROW LEVEL SECURITY;
