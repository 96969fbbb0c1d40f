DROP FUNCTION unassigned_attempts;
