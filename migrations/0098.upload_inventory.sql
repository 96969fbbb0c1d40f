-- depends: 0097.uploads_without_event
-- A deployment can read S3 Inventory instead of listing a large bucket.

-- Progress of reading the inventories of a prefix. It continues behind the rows read of the next file.
CREATE TABLE upload_inventory (
    bucket         text NOT NULL,
    prefix         text NOT NULL,
    manifest       text,  -- its key; NULL: no inventory was found yet
    checksum       text,  -- MD5 of the manifest
    files_read     integer NOT NULL,
    rows_read      bigint NOT NULL,
    begun_at       timestamptz NOT NULL,
    is_complete    boolean NOT NULL,
    complete_since timestamptz NOT NULL,  -- when the last complete inventory began, at first when the row was created
    PRIMARY KEY (bucket, prefix)
);
GRANT SELECT, INSERT, UPDATE ON upload_inventory TO counterfoil_delivery;
