// Daily offers by date and time zone, with their progress. The filter is stored in the URL.

import { useRef } from "preact/hooks";
import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { knownValue, navigate, type Route, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { ErrorNotice, Loading, Notice, Pagination, Status, useTitle } from "../ui/components";
import { ANY, Choice, Days, type Option, useTyped } from "../ui/filters";
import { formatCount, formatDay, formatNumber, Time, toLabel } from "../ui/format";
import { useRowShortcuts, useShortcuts } from "../ui/shortcuts";
import { Progress, shownState } from "./shards";

type ListFilter = ReturnType<typeof filterFrom>;

const MAX_ZONE_LENGTH = 64;
const STATES = ["running", "completed", "failed"];
const DAY = /^\d{4}-\d{2}-\d{2}$/;

function filterFrom(route: Route) {
  const { query } = route;
  const day = (name: string) => {
    const value = query.get(name) ?? "";
    return DAY.test(value) ? value : "";
  };
  return {
    tenant: tenantOf(route, currentSession()),
    timezone: (query.get("timezone") ?? "").slice(0, MAX_ZONE_LENGTH),
    state: knownValue(STATES, query.get("state")),
    from: day("from"),
    to: day("to"),
    cursor: query.get("cursor") ?? "",
  };
}

export function Offers() {
  const filter = filterFrom(useRoute());
  useTitle("Offers");
  const { data, error, busy, reload } = useQuery<Schemas["OfferPoolPage"]>(["admin/offers", filter], {
    every: filter.cursor ? 0 : POLL_FAST_SECONDS,
  });
  return (
    <>
      <h1>Offers</h1>
      <p class="lead">Each day at 9:00 local time, users are offered to each other. One row per date and time zone.</p>
      <Filter filter={filter} />
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Offers" aria-busy={busy}>
          <Rows filter={filter} data={data} />
        </section>
      ) : (
        !error && <Loading subject="offers" />
      )}
    </>
  );
}

const isFiltered = (filter: ListFilter) => Boolean(filter.timezone || filter.state || filter.from || filter.to);

function Filter({ filter }: { filter: ListFilter }) {
  const [zone, setZone] = useTyped(filter.timezone);
  const field = useRef<HTMLInputElement>(null);
  useShortcuts([{ key: "/", label: "Search for a time zone", act: () => field.current?.focus() }]);
  const change = (more: Partial<ListFilter>) => navigate("offers", { ...filter, cursor: "", ...more });
  const submit = (event: Event) => {
    event.preventDefault();
    change({ timezone: zone.trim() });
  };
  return (
    <form class="filter" role="search" aria-label="Offers" onSubmit={submit}>
      <label class="wide">
        Time zone
        <input
          ref={field}
          type="search"
          maxlength={MAX_ZONE_LENGTH}
          spellcheck={false}
          placeholder="for example Europe/Berlin"
          value={zone}
          onInput={(event) => setZone(event.currentTarget.value)}
        />
      </label>
      <Choice
        title="Status"
        value={filter.state}
        options={[ANY, ...STATES.map((state): Option => [state, toLabel(shownState(state))])]}
        choose={(state) => change({ state })}
      />
      <Days filter={filter} change={change} />
      <div class="buttons">
        <button class="primary" type="submit">
          Search
        </button>
        {isFiltered(filter) && (
          <a class="button" href={navigate.href("offers", { tenant: filter.tenant })}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

function Rows({ filter, data }: { filter: ListFilter; data: Schemas["OfferPoolPage"] }) {
  const { body } = useRowShortcuts("pool");
  useShortcuts([{ key: "Enter", label: "Open the focused pool", act: null }]);
  if (!data.pools.length) {
    return isFiltered(filter) || filter.cursor ? (
      <Notice title="No results">No offers match. Clear the search or choose other dates.</Notice>
    ) : (
      <Notice title="No offers yet">
        Store profiles with <code>{"PUT /api/users/{id}/profile"}</code>. Users are first offered to each other at the
        next 9:00 in their time zone.
      </Notice>
    );
  }
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Date</th>
            <th scope="col">Time zone</th>
            <th scope="col" class="count">
              Users
            </th>
            <th scope="col">Users with offers</th>
            <th scope="col" class="count">
              Failed
            </th>
            <th scope="col">Ended</th>
            <th scope="col">Status</th>
          </tr>
        </thead>
        <tbody ref={body}>
          {data.pools.map((pool) => (
            <Row key={pool.id} pool={pool} />
          ))}
        </tbody>
      </table>
      <Pagination
        newest={filter.cursor && navigate.href("offers", { ...filter, cursor: "" })}
        older={data.next_cursor && navigate.href("offers", { ...filter, cursor: data.next_cursor })}
      />
    </>
  );
}

function Row({ pool }: { pool: Schemas["OfferPool"] }) {
  return (
    <tr>
      <td data-label="Date" class="single-line">
        <a href={navigate.href(`offers/${pool.id}`, { tenant: pool.tenant })}>{formatDay(pool.date)}</a>
      </td>
      <td data-label="Time zone" class="time-zone">
        {pool.timezone}
      </td>
      <td data-label="Users" class="count">
        {formatNumber(pool.user_count)}
      </td>
      <td data-label="Users with offers">
        <Progress pool={pool} />
      </td>
      <td data-label="Failed" class="count">
        <span class={pool.failed ? "bad" : ""}>{formatNumber(pool.failed)}</span>
      </td>
      <td data-label="Ended">
        <EndTime pool={pool} />
      </td>
      <td data-label="Status">
        <Status status={shownState(pool.state)} />
      </td>
    </tr>
  );
}

// The pool's end time and its number of late users. A user is late if offers are missing at 10:00, or an hour after the
// user joined a pinned pool.
function EndTime({ pool }: { pool: Schemas["OfferPool"] }) {
  return (
    <>
      {pool.ended_at ? <Time at={pool.ended_at} /> : <span class="muted">Not yet</span>}
      {pool.late_users > 0 && (
        <>
          {" "}
          <span class="late">({formatCount(pool.late_users, "user")} late)</span>
        </>
      )}
    </>
  );
}
