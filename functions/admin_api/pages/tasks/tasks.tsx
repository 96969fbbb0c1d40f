// Tasks submitted through the API. The filter is stored in the URL.

import { useRef } from "preact/hooks";
import { POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { hasRole } from "../roles";
import { knownValue, navigate, type Route, useRoute } from "../router";
import { tenantOf } from "../tenant";
import { ErrorNotice, Loading, Notice, Pagination, Status, useTitle } from "../ui/components";
import { ANY, Choice, Days, plainOptions, useTyped } from "../ui/filters";
import { formatNumber, startOfDay, Time, toLabel } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { ACTIVE_STATUSES, Cancel } from "./task";

type ListFilter = ReturnType<typeof filterFrom>;

const STATUSES = ["pending", "in-progress", "succeeded", "failed", "canceled"];

function filterFrom(route: Route) {
  const { query } = route;
  return {
    tenant: tenantOf(route, currentSession()),
    status: knownValue(STATUSES, query.get("status")),
    task_type: query.get("task_type") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

export function Tasks() {
  const route = useRoute();
  const filter = filterFrom(route);
  const { from, to, ...others } = filter;
  useTitle("Tasks");
  const { data, error, busy, reload } = useQuery<Schemas["TaskPage"]>(
    ["tasks", { ...others, from: startOfDay(from), to: startOfDay(to, 1) }],
    { every: filter.cursor ? 0 : POLL_FAST_SECONDS },
  );
  return (
    <>
      <h1>Tasks</h1>
      <p class="lead">Tasks submitted through the API. You see your own tasks. Admins see all tasks.</p>
      <Filter filter={filter} />
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Tasks" aria-busy={busy}>
          <Rows filter={filter} data={data} reload={reload} />
        </section>
      ) : (
        !error && <Loading subject="tasks" />
      )}
    </>
  );
}

// Returns the API's name of a type, for example "chat_completion" for "Chat completion".
const typeNamed = (label: string) =>
  label
    .trim()
    .toLowerCase()
    .replace(/[\s-]+/g, "_");

function Filter({ filter }: { filter: ListFilter }) {
  const [type, setType] = useTyped(filter.task_type && toLabel(filter.task_type));
  const field = useRef<HTMLInputElement>(null);
  useShortcuts([{ key: "/", label: "Search for a type", act: () => field.current?.focus() }]);
  const change = (more: Partial<ListFilter>) => navigate("tasks", { ...filter, cursor: "", ...more });
  const submit = (event: Event) => {
    event.preventDefault();
    change({ task_type: typeNamed(type) });
  };
  const isFiltered = filter.status || filter.task_type || filter.from || filter.to;
  return (
    <form class="filter" role="search" aria-label="Tasks" onSubmit={submit}>
      <label class="wide">
        Type
        <input
          ref={field}
          type="search"
          spellcheck={false}
          placeholder="for example Chat completion"
          value={type}
          onInput={(event) => setType(event.currentTarget.value)}
        />
      </label>
      <Choice
        title="Status"
        value={filter.status}
        options={[ANY, ...plainOptions(STATUSES)]}
        choose={(status) => change({ status })}
      />
      <Days filter={filter} change={change} />
      <div class="buttons">
        <button class="primary" type="submit">
          Search
        </button>
        {isFiltered && (
          <a class="button" href={navigate.href("tasks", { tenant: filter.tenant })}>
            Clear
          </a>
        )}
      </div>
    </form>
  );
}

function Rows({ filter, data, reload }: { filter: ListFilter; data: Schemas["TaskPage"]; reload: () => void }) {
  if (!data.tasks.length) {
    const isFiltered = filter.status || filter.task_type || filter.from || filter.to || filter.cursor;
    return isFiltered ? (
      <Notice title="No results">No tasks match. Clear the filter or choose another status.</Notice>
    ) : (
      <Notice title="No tasks yet">
        Submit one with <code>POST /api/tasks</code> or <code>counterfoil tasks submit</code>.
      </Notice>
    );
  }
  const cancels = hasRole("operator");
  return (
    <>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Submitted</th>
            <th scope="col">Type</th>
            <th scope="col" class="count">
              Attempts
            </th>
            <th scope="col">Status</th>
            <th scope="col">Error</th>
            {cancels && (
              <th scope="col">
                <span class="visually-hidden">Cancel</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {data.tasks.map((task) => (
            <tr key={task.job_id}>
              <td data-label="Submitted">
                <a href={navigate.href(`tasks/${task.job_id}`, { tenant: task.tenant })}>
                  <Time at={task.created_at} />
                </a>
              </td>
              <td data-label="Type">{toLabel(task.task_type)}</td>
              <td data-label="Attempts" class="count">
                {formatNumber(task.attempts)} <span class="muted">of {formatNumber(task.max_retry + 1)}</span>
              </td>
              <td data-label="Status">
                <Status status={task.status} />
                {ACTIVE_STATUSES.includes(task.status) && task.next_attempt_at && (
                  <>
                    {" "}
                    <span class="muted">
                      Next attempt at <Time at={task.next_attempt_at} />
                    </span>
                  </>
                )}
              </td>
              <td data-label="Error">{task.error}</td>
              {cancels && (
                <td>{ACTIVE_STATUSES.includes(task.status) && <Cancel task={task} done={reload} small />}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <Pagination
        newest={filter.cursor && navigate.href("tasks", { ...filter, cursor: "" })}
        older={data.next_cursor && navigate.href("tasks", { ...filter, cursor: data.next_cursor })}
      />
    </>
  );
}
