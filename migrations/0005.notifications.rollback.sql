DROP TABLE failure_event, notification_delivery, notification_digest;
