DROP TABLE upload_event_check, upload_inventory, upload_listing, document, source, acquisition_job;
