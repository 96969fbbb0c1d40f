DROP TRIGGER version_grows ON dead_letter;
DROP FUNCTION next_dead_letter_version();
