-- depends: 0041.chat_forgetting
-- A dead letter's version grows with each change, whoever makes it: workers settle letters, too, and their statements say
-- nothing of versions.

CREATE FUNCTION next_dead_letter_version() RETURNS trigger LANGUAGE plpgsql AS $next$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$next$;
CREATE TRIGGER version_grows BEFORE UPDATE ON dead_letter
    FOR EACH ROW WHEN (NEW.version = OLD.version AND OLD IS DISTINCT FROM NEW) EXECUTE FUNCTION next_dead_letter_version();
