DROP TABLE notification, notice_delivery, notice;
