DROP TABLE upload_inventory;
