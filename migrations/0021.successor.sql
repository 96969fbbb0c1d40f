-- depends: 0020.document_copy
-- A replacement is carried out when the new document has been read: until then it is known which one that is.

ALTER TABLE document_replacement ADD COLUMN successor uuid;
CREATE INDEX document_replacement_by_successor ON document_replacement (successor)
    WHERE successor IS NOT NULL AND settled_at IS NULL;
GRANT UPDATE (successor) ON document_replacement TO counterfoil_worker;
