-- depends: 0006.notifications
-- Circuit breakers, and the queues that are not read while one of them is open.

-- A service that is away is away for everybody: a breaker belongs to no tenant and tells of none. Every process reads
-- and changes it in transactions of the delivery role; a worker's own role sees nothing of it.
CREATE TABLE breaker (
    name       text PRIMARY KEY,                -- llm:<provider>, webhook:<host>
    generation bigint NOT NULL DEFAULT 0,       -- grows with each step: what an older call brings home is void
    failures   integer NOT NULL DEFAULT 0,      -- in a row, while closed
    openings   integer NOT NULL DEFAULT 0,      -- in a row; each lasts twice as long as the one before
    opened_at  timestamptz,                     -- NULL: closed
    open_until timestamptz,                     -- no call before; while probing, when the probe is given to another
    probing    boolean NOT NULL DEFAULT false,
    CHECK ((opened_at IS NULL) = (open_until IS NULL) AND (opened_at IS NULL) = (openings = 0)),
    CHECK (opened_at IS NOT NULL OR NOT probing)
);
GRANT SELECT, INSERT, UPDATE ON breaker TO counterfoil_delivery;

-- What the watchdog did to the event source mapping of a worker. A mapping serves all tenants, so a row has none either.
--   pausing   it is about to disable the mapping, or has, and did not live to see it
--   paused    it disabled the mapping, and is to enable it again
--   released  it has no right to enable the mapping: it did already, or a person took over
CREATE TABLE mapping_pause (
    mapping     uuid PRIMARY KEY,
    status      text NOT NULL CHECK (status IN ('pausing', 'paused', 'released')),
    opened_at   timestamptz NOT NULL,           -- the outage that it is about: the breaker's opened_at
    intended_at timestamptz NOT NULL            -- when the mapping was last about to be disabled
);
GRANT SELECT, INSERT, UPDATE ON mapping_pause TO counterfoil_delivery;
