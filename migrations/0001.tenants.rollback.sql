DROP TABLE tenant;
DROP TABLE organization;
