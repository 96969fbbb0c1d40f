// Dead letters: groups by error, and a list. The filter is stored in the URL.

import { useRef, useState } from "preact/hooks";
import { POLL_LEADER_SECONDS, POLL_SLOW_SECONDS, type QueryResult, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { canSeeAllTenants, hasRole } from "../roles";
import { navigate, type Route, useRoute } from "../router";
import { tenantOf, UNASSIGNED } from "../tenant";
import { ErrorNotice, Loading, Notice, Pagination, Status, SuccessNotice, useTitle } from "../ui/components";
import { ANY, Choice, Days, plainOptions, useTyped } from "../ui/filters";
import { formatNumber, shortId, startOfDay, Time, toLabel } from "../ui/format";
import { useRowShortcuts, useShortcuts } from "../ui/shortcuts";
import {
  ACTION_LIST,
  type Action,
  ActionDialog,
  canChangeMany,
  type DeadLetterStatus,
  type DeadLetterSummary,
} from "./actions";
import { BulkBar, BulkDialog, bulkFilterOf, MAX_SELECTED } from "./bulk";
import { errorTitle } from "./error_title";
import { ExportDialog } from "./export";
import { Groups } from "./groups";

// An action on one dead letter or on several. An empty `deadLetters` means all that match the filter.
type OpenDialog = { action: Action; deadLetter?: DeadLetterSummary; deadLetters?: DeadLetterSummary[] };
type Stats = Schemas["DeadLetterStats"];
export type ListFilter = ReturnType<typeof filterFrom>;

const MAX_TEXT_LENGTH = 200;
const STATUSES: DeadLetterStatus[] = ["pending", "retried", "resolved", "ignored"];

// Returns the filter in the URL.
function filterFrom(route: Route) {
  const { query } = route;
  const status = STATUSES.filter((one) => query.getAll("status").includes(one));
  return {
    tenant: tenantOf(route, currentSession()),
    status: status.length ? status : query.has("status") ? STATUSES : ["pending"],
    task_type: query.get("task_type") ?? "",
    search: query.get("search") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    fingerprint: query.get("fingerprint") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

// Returns the URL for a filter, without default values.
function hrefOf({ status, ...filter }: ListFilter) {
  const usual = status.length === 1 && status[0] === "pending";
  const all = status.length === STATUSES.length;
  return navigate.href("dead-letters", { ...filter, status: usual ? [] : all ? ["all"] : status });
}

export function DeadLetters() {
  const route = useRoute();
  const filter = filterFrom(route);
  const { tenant, status, from, to, cursor, ...others } = filter;
  const [exporting, setExporting] = useState(false);
  useTitle("Dead letters");
  const stats = useQuery<Schemas["DeadLetterStats"]>(["admin/dlq/stats", { tenant }], {
    every: cursor ? 0 : POLL_LEADER_SECONDS,
  });
  const deadLetters = useQuery<Schemas["DeadLetterPage"]>(
    ["admin/dlq", { tenant, status, from_date: startOfDay(from), to_date: startOfDay(to, 1), cursor, ...others }],
    { every: cursor ? 0 : POLL_SLOW_SECONDS, version: stats.data },
  );
  const isFiltered = Boolean(filter.search || filter.fingerprint || cursor || from || to || filter.task_type);
  const inGroup = deadLetters.data?.dead_letters.find((one) => one.fingerprint === filter.fingerprint);
  return (
    <>
      <div class="heading">
        <h1>Dead letters</h1>
        <nav class="secondary-navigation" aria-label="More about dead letters">
          {canSeeAllTenants() && tenant !== UNASSIGNED && (
            <a href={navigate.href("dead-letters", { tenant: UNASSIGNED })}>Unassigned</a>
          )}
          {tenant !== UNASSIGNED && (
            <>
              <a href={navigate.href("operations", { tenant })}>Operations</a>
              <button type="button" class="link" onClick={() => setExporting(true)}>
                Export…
              </button>
            </>
          )}
        </nav>
      </div>
      <p class="lead">
        {tenant === UNASSIGNED
          ? "Messages that could not be parsed, so their tenant is unknown. Close them one by one."
          : "Failed work items. Retry, resolve or ignore each one."}
      </p>
      {exporting && <ExportDialog filter={filter} close={() => setExporting(false)} />}
      <Counts filter={filter} stats={stats.data} />
      <Filter
        filter={filter}
        types={stats.data?.task_types ?? []}
        groupTitle={inGroup ? errorTitle(inGroup.metadata.last_error) : null}
      />
      {!isFiltered && <Groups filter={filter} counts={stats.data} hrefOf={hrefOf} />}
      <Results key={tenant} filter={filter} answer={deadLetters} isFiltered={isFiltered} />
    </>
  );
}

function Counts({ filter, stats }: { filter: ListFilter; stats: Stats | null }) {
  const one = filter.status.length === 1 ? filter.status[0] : null;
  return (
    <nav class="counts" aria-label="By status">
      {STATUSES.map((status) => (
        <a
          href={hrefOf({ ...filter, status: [status], cursor: "" })}
          aria-current={one === status ? "true" : undefined}
        >
          <b>{stats ? formatNumber(stats[status]) : "–"}</b> <Status status={status} />
        </a>
      ))}
      <a
        href={hrefOf({ ...filter, status: STATUSES, cursor: "" })}
        aria-current={filter.status.length === STATUSES.length ? "true" : undefined}
      >
        <b>{stats ? formatNumber(stats.count) : "–"}</b> <span>All</span>
      </a>
    </nav>
  );
}

function Filter({
  filter,
  types,
  groupTitle,
}: {
  filter: ListFilter;
  types: Stats["task_types"];
  groupTitle: string | null;
}) {
  const [search, setSearch] = useTyped(filter.search);
  const field = useRef<HTMLInputElement>(null);
  useShortcuts([{ key: "/", label: "Search", act: () => field.current?.focus() }]);
  const change = (more: Partial<ListFilter>) => navigate.to(hrefOf({ ...filter, cursor: "", ...more }));
  const submit = (event: Event) => {
    event.preventDefault();
    change({ search: search.trim() });
  };
  const known = types.map((one) => one.task_type);
  const listed = filter.task_type && !known.includes(filter.task_type) ? [...known, filter.task_type] : known;
  const isFiltered = filter.search || filter.task_type || filter.from || filter.to || filter.fingerprint;
  return (
    <form class="filter" role="search" aria-label="Dead letters" onSubmit={submit}>
      <label class="wide">
        Error, file or ID
        <input
          type="search"
          ref={field}
          maxlength={MAX_TEXT_LENGTH}
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      </label>
      <Choice
        title="Type"
        value={filter.task_type}
        options={[ANY, ...plainOptions(listed)]}
        choose={(task_type) => change({ task_type })}
      />
      <Days filter={filter} change={change} />
      <div class="buttons">
        <button class="primary" type="submit">
          Search
        </button>
        {isFiltered && (
          <a class="button" href={navigate.href("dead-letters", { tenant: filter.tenant })}>
            Clear
          </a>
        )}
      </div>
      {filter.fingerprint && (
        <p class="selected">
          {groupTitle ? (
            <>
              Only dead letters in the group: <b>{groupTitle}</b>
            </>
          ) : (
            "Only dead letters in one group."
          )}{" "}
          <a href={hrefOf({ ...filter, fingerprint: "", cursor: "" })}>Show all groups</a>
        </p>
      )}
    </form>
  );
}

const LIST = "letters";

// Dead letters stay selected across pages and searches, until an action on them starts.
function Results({
  filter,
  answer,
  isFiltered,
}: {
  filter: ListFilter;
  answer: QueryResult<Schemas["DeadLetterPage"]>;
  isFiltered: boolean;
}) {
  const { data, error, busy, reload } = answer;
  const [chosen, setChosen] = useState<Map<string, DeadLetterSummary>>(new Map());
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const [notice, setNotice] = useState<string | null>(null);
  const { body, focused } = useRowShortcuts("dead letter");
  const deadLetters = data?.dead_letters ?? [];
  const pending = hasRole("operator") ? deadLetters.filter((deadLetter) => deadLetter.status === "pending") : [];
  const allowsBulk = canChangeMany(filter.tenant);
  const choosable = allowsBulk ? pending : [];
  const choose = (some: DeadLetterSummary[], on: boolean) =>
    setChosen((before) => {
      const after = new Map(before);
      for (const deadLetter of some) {
        if (!on) {
          after.delete(deadLetter.job_id);
        } else if (after.size < MAX_SELECTED) {
          after.set(deadLetter.job_id, deadLetter);
        }
      }
      return after;
    });
  const focusedDeadLetter = () => pending.find((deadLetter) => deadLetter.job_id === deadLetters[focused()]?.job_id);
  const begin = (action: Action) => {
    const deadLetter = focusedDeadLetter();
    if (chosen.size) {
      setDialog({ action, deadLetters: [...chosen.values()] });
    } else if (deadLetter) {
      setDialog({ action, deadLetter });
    }
  };
  useShortcuts([
    { key: "Enter", label: "Open the focused dead letter", act: null },
    ...(allowsBulk
      ? [
          {
            key: "x",
            label: "Select or deselect the focused dead letter",
            act: () => {
              const deadLetter = focusedDeadLetter();
              if (deadLetter) {
                choose([deadLetter], !chosen.has(deadLetter.job_id));
              }
            },
          },
        ]
      : []),
    ...(hasRole("operator")
      ? ACTION_LIST.map(([name, { key, verb }]) => ({
          key,
          label: allowsBulk
            ? `${verb} the selected dead letters, or the focused one`
            : `${verb} the focused dead letter`,
          act: () => begin(name),
        }))
      : []),
  ]);
  if (!data) {
    return error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="dead letters" />;
  }
  const done = (sentence: string) => {
    setDialog(null);
    setNotice(sentence);
    reload();
  };
  return (
    <section aria-labelledby={LIST} aria-busy={busy}>
      <h2 id={LIST}>Dead letters</h2>
      {error && <ErrorNotice error={error} reload={reload} />}
      {notice && <SuccessNotice>{notice}</SuccessNotice>}
      {deadLetters.length > 0 && allowsBulk && (
        <BulkBar
          filter={filter}
          chosen={chosen}
          page={choosable}
          choose={choose}
          clear={() => setChosen(new Map())}
          begin={(action) => setDialog({ action, deadLetters: [...chosen.values()] })}
        />
      )}
      {deadLetters.length ? (
        <table class="rows">
          <thead>
            <tr>
              {choosable.length > 0 && (
                <th scope="col">
                  <span class="visually-hidden">Selected</span>
                </th>
              )}
              <th scope="col">Failed</th>
              <th scope="col">Error</th>
              <th scope="col">File</th>
              <th scope="col">Type</th>
              <th scope="col" class="count">
                Attempts
              </th>
              <th scope="col">Status</th>
            </tr>
          </thead>
          <tbody ref={body}>
            {deadLetters.map((deadLetter) => (
              <DeadLetterRow
                key={deadLetter.job_id}
                deadLetter={deadLetter}
                chosen={chosen.has(deadLetter.job_id)}
                choose={choosable.length > 0 && ((on) => choose([deadLetter], on))}
              />
            ))}
          </tbody>
        </table>
      ) : (
        <EmptyList filter={filter} isFiltered={isFiltered} more={data.next_cursor} />
      )}
      <Pagination
        newest={filter.cursor && hrefOf({ ...filter, cursor: "" })}
        older={data.next_cursor && hrefOf({ ...filter, cursor: data.next_cursor })}
      />
      {dialog?.deadLetter && (
        <ActionDialog deadLetter={dialog.deadLetter} action={dialog.action} close={() => setDialog(null)} done={done} />
      )}
      {dialog?.deadLetters && (
        <BulkDialog
          action={dialog.action}
          deadLetters={dialog.deadLetters}
          filter={bulkFilterOf(filter)}
          close={() => setDialog(null)}
          onStarted={() => setChosen(new Map())}
        />
      )}
    </section>
  );
}

function EmptyList({ filter, isFiltered, more }: { filter: ListFilter; isFiltered: boolean; more: string | null }) {
  if (more) {
    return <p class="notice">No matches on this page. Older dead letters may match.</p>;
  }
  if (isFiltered) {
    return <Notice title="No results">No dead letters match. Clear the search or choose another status.</Notice>;
  }
  const isPendingOnly = filter.status.length === 1 && filter.status[0] === "pending";
  return (
    <Notice title={isPendingOnly ? "No pending dead letters" : "No dead letters"}>
      {isPendingOnly ? "No failed work items need action." : "No dead letters have this status."}
    </Notice>
  );
}

function DeadLetterRow({
  deadLetter,
  chosen,
  choose,
}: {
  deadLetter: DeadLetterSummary;
  chosen: boolean;
  choose: ((on: boolean) => void) | false;
}) {
  const error = deadLetter.metadata.last_error;
  const href = navigate.href(`dead-letters/${deadLetter.job_id}`, { tenant: deadLetter.tenant });
  return (
    <tr class={chosen ? "selected" : undefined}>
      {choose && (
        <td class="select-cell">
          {deadLetter.status === "pending" && (
            <label>
              <input type="checkbox" checked={chosen} onChange={(event) => choose(event.currentTarget.checked)} />
              <span class="visually-hidden">
                Select dead letter {shortId(deadLetter.job_id)}: {toLabel(deadLetter.task_type)}, {errorTitle(error)}
              </span>
            </label>
          )}
        </td>
      )}
      <td data-label="Failed">
        <Time at={deadLetter.dlq_timestamp} />
      </td>
      <td data-label="Error">
        <a href={href}>{error.message || error.type}</a> {error.message && <span class="muted">{error.type}</span>}
      </td>
      <td data-label="File">{deadLetter.file_name ?? ""}</td>
      <td data-label="Type">{toLabel(deadLetter.task_type)}</td>
      <td data-label="Attempts" class="count">
        {formatNumber(deadLetter.attempts)}
      </td>
      <td data-label="Status">
        <Status status={deadLetter.status} />
      </td>
    </tr>
  );
}
