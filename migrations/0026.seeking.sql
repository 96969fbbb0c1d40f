-- depends: 0025.variance_decision
ALTER TABLE document_key NO FORCE ROW LEVEL SECURITY;
-- Documents that no number led to a partner have keys of their own for being found, and others have none for that.
INSERT INTO document_key (tenant_id, document_id, type, key)
SELECT k.tenant_id, k.document_id, 'seeks:' || p.parent, k.key
FROM document_key k
JOIN (
    VALUES ('invoice', 'purchase_order'), ('invoice', 'contract'), ('credit_note', 'invoice'),
           ('purchase_order', 'contract'), ('order_confirmation', 'purchase_order'),
           ('delivery_note', 'purchase_order'), ('goods_receipt', 'purchase_order')
) AS p (child, parent) ON k.type = 'deal:' || p.child;

DELETE FROM document_key
WHERE type IN ('deal:credit_note', 'deal:order_confirmation', 'deal:delivery_note', 'deal:goods_receipt');
ALTER TABLE document_key FORCE ROW LEVEL SECURITY;

-- When a document last lost keys, in each tenant: a match that is under way may have found it by one of them.
CREATE TABLE key_loss (
    tenant_id  uuid PRIMARY KEY REFERENCES tenant ON DELETE CASCADE,
    written_by xid8 NOT NULL DEFAULT pg_current_xact_id()
);
ALTER TABLE key_loss ENABLE ROW LEVEL SECURITY;
ALTER TABLE key_loss FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON key_loss TO counterfoil_worker
    USING (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid)
    WITH CHECK (tenant_id = nullif(current_setting('counterfoil.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE ON key_loss TO counterfoil_worker;
