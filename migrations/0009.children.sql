-- depends: 0007.breaker
-- Documents that were cut out of a file of many: each names the document of the whole file and the pages that it has there.

ALTER TABLE document
    ADD COLUMN parent_id uuid,
    ADD COLUMN first_page integer,
    ADD COLUMN last_page integer,
    ADD CONSTRAINT document_child CHECK (num_nulls(parent_id, first_page, last_page) IN (0, 3)),
    ADD CONSTRAINT document_pages CHECK (first_page BETWEEN 1 AND last_page),
    ADD FOREIGN KEY (tenant_id, parent_id) REFERENCES document (tenant_id, id) ON DELETE CASCADE;

-- Splitting the same file again finds what is there.
CREATE UNIQUE INDEX document_by_parent ON document (parent_id, first_page) WHERE parent_id IS NOT NULL;
