// Operations on many dead letters or documents: their progress and controls.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import {
  etagOf,
  POLL_FAST_SECONDS,
  POLL_LEADER_SECONDS,
  POLL_SLOW_SECONDS,
  type Schemas,
  send,
  useQuery,
} from "../api";
import { currentSession } from "../current_session";
import { ACTIONS, type Action } from "../dead_letters/actions";
import { MAX_PER_SECOND } from "../dead_letters/bulk";
import { errorTitle } from "../dead_letters/error_title";
import { hasRole } from "../roles";
import { knownValue, navigate, type Query, useRoute } from "../router";
import { tenantOf } from "../tenant";
import {
  CopyableId,
  ErrorNotice,
  type Fact,
  FactList,
  Loading,
  Notice,
  Pagination,
  Status,
  SuccessNotice,
  useTitle,
} from "../ui/components";
import { Dialog } from "../ui/dialog";
import { formatCount, formatNumber, shortId, Time, toLabel } from "../ui/format";
import { useShortcuts } from "../ui/shortcuts";
import { UserName } from "../ui/user_name";
import { PurgeDialog } from "./purge";

type Operation = Schemas["OperationProgress"];
type OperationItem = Schemas["OperationItemPage"]["items"][number];

const ACTIVE_STATES = ["selecting", "canary", "running", "paused"];
const DESCRIPTIONS: Record<Operation["state"], string> = {
  selecting: "The items are being selected.",
  canary: "The canary is running. The remaining items start when it succeeds.",
  running: "You can close this page. The operation continues.",
  paused: "An operator can resume the operation. Items in progress are not interrupted.",
  done: "The operation is complete.",
  canceled: "The operation was canceled. Completed items are not undone.",
  halted: "The operation stopped before it was complete.",
};

const REPROCESSING = { extract: "Extract", match: "Match" };
const MAX_PER_MINUTE = 1000; // documents
const VERBS: Partial<Record<Operation["action"], string>> = {
  ...REPROCESSING,
  purge: "Purge",
  restore: "Restore",
  export: "Export",
}; // operations without a list of items

const verbOf = ({ action }: Operation) => VERBS[action] ?? ACTIONS[action as Action].verb;
const nounOf = ({ action }: Operation) => (action in REPROCESSING ? "document" : "dead letter");

// Names of states, where they differ from the API's.
const STATE_NAMES: Partial<Record<Operation["state"], string>> = { running: "in-progress", done: "completed" };

const State = ({ state }: { state: Operation["state"] }) => <Status status={STATE_NAMES[state] ?? state} />;

// Returns the number of items with a result, and the number of items selected so far.
function countsOf({ succeeded, failed, skipped, remaining, selected }: Operation) {
  const handled = succeeded + failed + skipped;
  return { handled, total: selected ?? handled + remaining };
}

function Progress({ operation }: { operation: Operation }) {
  const { handled, total } = countsOf(operation);
  return (
    <>
      <progress value={handled} max={Math.max(1, total)} aria-label="Processed items"></progress>
      <span class="muted">
        {" "}
        {formatNumber(handled)} of {formatNumber(total)}
        {operation.selected === null && " so far"}
      </span>
    </>
  );
}

function back(tenant: string | null) {
  return (
    <p>
      <a href={navigate.href("dead-letters", { tenant })}>All dead letters</a>
    </p>
  );
}

export function Operations() {
  const route = useRoute();
  const tenant = tenantOf(route, currentSession());
  const cursor = route.query.get("cursor") ?? "";
  const [purging, setPurging] = useState(false);
  const [notice, setNotice] = useState<ComponentChildren>(null);
  useTitle("Operations");
  const { data, error, reload } = useQuery<Schemas["OperationPage"]>(["admin/operations", { tenant, cursor }], {
    every: cursor ? 0 : POLL_FAST_SECONDS,
  });
  const done = (message: ComponentChildren) => {
    setPurging(false);
    setNotice(message);
    reload();
  };
  return (
    <>
      {back(tenant)}
      <h1>Operations</h1>
      <p class="lead">Bulk changes to dead letters, purges, exports, and reprocessing of documents.</p>
      {notice && <SuccessNotice>{notice}</SuccessNotice>}
      {hasRole("admin") && (
        <p>
          <button type="button" class="danger" onClick={() => setPurging(true)}>
            Purge dead letters…
          </button>
        </p>
      )}
      {purging && <PurgeDialog tenant={tenant} close={() => setPurging(false)} done={done} />}
      {error && <ErrorNotice error={error} reload={reload} />}
      {data ? (
        <section aria-label="Operations">
          {data.operations.length ? (
            <Rows operations={data.operations} />
          ) : (
            <Notice title="No operations yet">
              To retry, resolve or ignore many dead letters at once, select them in the list or filter the list.
            </Notice>
          )}
          <Pagination
            newest={cursor && navigate.href("operations", { tenant })}
            older={data.next_cursor && navigate.href("operations", { tenant, cursor: data.next_cursor })}
          />
        </section>
      ) : (
        !error && <Loading subject="operations" />
      )}
    </>
  );
}

function Rows({ operations }: { operations: Operation[] }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Requested</th>
          <th scope="col">Action</th>
          <th scope="col">Requested by</th>
          <th scope="col">Progress</th>
          <th scope="col" class="count">
            Failed
          </th>
          <th scope="col">Status</th>
        </tr>
      </thead>
      <tbody>
        {operations.map((operation) => (
          <tr key={operation.operation_id}>
            <td data-label="Requested">
              <a href={navigate.href(`operations/${operation.operation_id}`, { tenant: operation.tenant })}>
                <Time at={operation.requested_at} />
              </a>
            </td>
            <td data-label="Action">{verbOf(operation)}</td>
            <td data-label="Requested by">
              <UserName value={operation.requested_by} isCapitalized />
            </td>
            <td data-label="Progress">
              <Progress operation={operation} />
            </td>
            <td data-label="Failed" class="count">
              {formatNumber(operation.failed)}
            </td>
            <td data-label="Status">
              <State state={operation.state} />
              {operation.reason && <p class="muted">{operation.reason}</p>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Operation({ id }: { id: string }) {
  const path = `admin/operations/${encodeURIComponent(id)}`;
  const {
    data: operation,
    error,
    reload,
  } = useQuery<Schemas["OperationProgress"]>([path, {}], { every: POLL_LEADER_SECONDS });
  useTitle("Operation");
  if (!operation) {
    return error?.status === 404 ? (
      <Notice isWholePage title="Operation not found">
        It was deleted, or it belongs to a tenant that you cannot access.
      </Notice>
    ) : (
      <>
        <h1>Operation</h1>
        {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the operation" />}
      </>
    );
  }
  const { tenant } = operation;
  const { total } = countsOf(operation);
  const facts: Fact[] = [
    [
      "Requested",
      <>
        <Time at={operation.requested_at} showsUtc /> by <UserName value={operation.requested_by} />
      </>,
    ],
    ["Tenant", tenant],
    ["Selection", operation.filter === null ? "Selected dead letters" : <FilterConditions operation={operation} />],
    ["Operation", <CopyableId value={operation.operation_id} />],
  ];
  if (operation.rate !== null) {
    facts.splice(1, 0, [
      "Rate",
      `At most ${formatNumber(operation.rate)} per ${operation.action in REPROCESSING ? "minute" : "second"}`,
    ]);
  }
  if (operation.canary) {
    const count = operation.canary === 1 ? "" : `${formatNumber(operation.canary)} `;
    facts.push(["Canary", `The first ${count}dead letter${operation.canary === 1 ? "" : "s"}`]);
  }
  if (operation.notes) {
    facts.push(["Note", operation.notes]);
  }
  if (operation.ended_at) {
    facts.push(["Ended", <Time at={operation.ended_at} showsUtc />]);
  }
  return (
    <>
      <p>
        <a href={navigate.href("operations", { tenant })}>All operations</a>
      </p>
      <h1>
        <State state={operation.state} /> {verbOf(operation)} {formatCount(total, nounOf(operation))}
      </h1>
      {error && <ErrorNotice error={error} reload={reload} />}
      <p>
        {DESCRIPTIONS[operation.state]} {operation.reason && <b>{operation.reason}</b>}
      </p>
      <p class="total-progress">
        <Progress operation={operation} />
      </p>
      <dl class="counts">
        {(["succeeded", "failed", "skipped", "remaining"] as const).map((name) => (
          <div>
            <dt>{toLabel(name)}</dt>
            <dd>{formatNumber(operation[name])}</dd>
          </div>
        ))}
      </dl>
      {hasRole("operator") && ACTIVE_STATES.includes(operation.state) && (
        <Controls operation={operation} path={path} reload={reload} />
      )}
      {operation.restorable_until && <Restore operation={operation} path={path} until={operation.restorable_until} />}
      <FactList facts={facts} />
      {!(operation.action in VERBS) && (
        <Items path={path} operation={operation} id={id} isActive={ACTIVE_STATES.includes(operation.state)} />
      )}
    </>
  );
}

// Shows how long a purge can be undone, with a button that undoes it.
function Restore({ operation, path, until }: { operation: Operation; path: string; until: string }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Error | null>(null);
  if (new Date(until) <= new Date()) {
    return <p>This purge can no longer be undone.</p>;
  }
  const restore = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { data } = await send<Operation>("POST", `${path}/restore`, null, { etag: etagOf(operation.version) });
      navigate(`operations/${data.operation_id}`, { tenant: operation.tenant });
    } catch (error) {
      setFailure(error as Error);
      setBusy(false);
    }
  };
  return (
    <>
      <p>
        This purge can be undone until <Time at={until} />.
        {hasRole("admin") && (
          <>
            {" "}
            <button type="button" disabled={busy} onClick={restore}>
              Undo
            </button>
          </>
        )}
      </p>
      {failure && (
        <p class="failure" role="alert">
          {failure.message}
        </p>
      )}
    </>
  );
}

// Names of conditions, where they differ from the API's.
const CONDITION_NAMES: Record<string, string> = {
  task_type: "type",
  from_date: "failed on or after",
  to_date: "failed before",
  fingerprint: "group",
};
const TIMES = ["from_date", "to_date", "received_from", "received_before"];

function FilterConditions({ operation: { action, filter, tenant } }: { operation: Operation }) {
  const conditions = Object.entries(filter ?? {}).filter(([, value]) => value !== null);
  return conditions.length
    ? conditions.map(([name, value]) => (
        <>
          <span class="chip">
            {toLabel(CONDITION_NAMES[name] ?? name)}:{" "}
            <b>
              <ConditionValue name={name} value={value} tenant={tenant} />
            </b>
          </span>{" "}
        </>
      ))
    : action === "export"
      ? "All dead letters"
      : "All pending dead letters";
}

function ConditionValue({ name, value, tenant }: { name: string; value: unknown; tenant: string }) {
  const text = String(value);
  if (TIMES.includes(name)) {
    return <Time at={text} />;
  }
  if (name === "fingerprint") {
    return <a href={navigate.href("dead-letters", { tenant, status: "all", fingerprint: text })}>Same error</a>;
  }
  if (name === "purge") {
    return <a href={navigate.href(`operations/${text}`, { tenant })}>…{shortId(text)}</a>;
  }
  if (name === "status") {
    return <>{[value].flat().map(String).map(toLabel).join(", ")}</>;
  }
  return <>{name === "task_type" ? toLabel(text) : text}</>;
}

function Controls({ operation, path, reload }: { operation: Operation; path: string; reload: () => void }) {
  const [failure, setFailure] = useState<Error | null>(null);
  const [notice, setNotice] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [cancelling, setCancelling] = useState(false);
  const [rate, setRate] = useState<number | string>(operation.rate ?? "");
  const paused = operation.state === "paused";
  const reprocesses = operation.action in REPROCESSING;
  const act = async (what: "rate" | "pause" | "resume" | "cancel", sentence: string) => {
    setBusy(true);
    setFailure(null);
    try {
      const seen = { etag: etagOf(operation.version) };
      await (what === "rate"
        ? send("PATCH", path, { rate: Number(rate) }, seen)
        : send("POST", `${path}/${what}`, null, seen));
      setNotice(sentence);
    } catch (error) {
      setFailure(error as Error);
    }
    setBusy(false);
    setCancelling(false);
    reload();
  };
  const pause = () => act("pause", "The operation was paused.");
  const resume = () => act("resume", "The operation was resumed.");
  const changeRate = (event: Event) => {
    event.preventDefault();
    act("rate", "The rate was changed.");
  };
  useShortcuts([{ key: "p", label: paused ? "Resume" : "Pause", act: paused ? resume : pause }]);
  return (
    <>
      <div class="buttons actions">
        {paused ? (
          <button type="button" class="primary" disabled={busy} onClick={resume}>
            Resume
          </button>
        ) : (
          <button type="button" disabled={busy} onClick={pause}>
            Pause
          </button>
        )}
        <button type="button" class="danger" disabled={busy} onClick={() => setCancelling(true)}>
          Cancel…
        </button>
      </div>
      {operation.rate !== null && hasRole(reprocesses ? "admin" : "operator") && (
        <form class="buttons" onSubmit={changeRate}>
          <label>
            At most{" "}
            <input
              type="number"
              min="1"
              max={reprocesses ? MAX_PER_MINUTE : MAX_PER_SECOND}
              required
              value={rate}
              onInput={(event) => setRate(event.currentTarget.value)}
            />{" "}
            per {reprocesses ? "minute" : "second"}
          </label>
          <button type="submit" disabled={busy}>
            Change rate
          </button>
        </form>
      )}
      {failure && (
        <p class="failure" role="alert">
          {failure.message}
        </p>
      )}
      {notice && <SuccessNotice>{notice}</SuccessNotice>}
      {cancelling && (
        <Dialog title="Cancel this operation?" close={() => setCancelling(false)} busy={busy}>
          <p>Completed items are not undone. The remaining items are not changed.</p>
          <div class="buttons">
            <button
              type="button"
              class="danger"
              disabled={busy}
              onClick={() => act("cancel", "The operation was canceled.")}
            >
              Cancel operation
            </button>
            <button type="button" disabled={busy} onClick={() => setCancelling(false)}>
              Keep the operation
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

const RESULTS = ["", "succeeded", "failed", "skipped"];
const EMPTY: Record<string, string> = {
  "": "No items have been selected yet.",
  succeeded: "No items succeeded.",
  failed: "No items failed.",
  skipped: "No items were skipped.",
};

function Items({
  path,
  operation,
  id,
  isActive,
}: {
  path: string;
  operation: Operation;
  id: string;
  isActive: boolean;
}) {
  const { tenant } = operation;
  const { query } = useRoute();
  const cursor = query.get("cursor") ?? "";
  const result = knownValue(RESULTS, query.get("result"));
  const { data, error, reload } = useQuery<Schemas["OperationItemPage"]>([`${path}/items`, { cursor, result }], {
    every: isActive ? POLL_SLOW_SECONDS : 0,
    version: operation,
  });
  const page = (more: Query) => navigate.href(`operations/${id}`, { tenant, result, ...more });
  return (
    <section aria-labelledby="items">
      <div class="heading">
        <h2 id="items">Dead letters</h2>
        <nav class="secondary-navigation" aria-label="By result">
          {RESULTS.map((one) => (
            <a href={page({ result: one })} aria-current={one === result ? "true" : undefined}>
              {toLabel(one || "all")}
            </a>
          ))}
        </nav>
      </div>
      {error && !data && <ErrorNotice error={error} reload={reload} />}
      {!data ? (
        !error && <Loading subject="the dead letters" />
      ) : (
        <>
          {data.items.length ? <ItemRows items={data.items} tenant={tenant} /> : <p class="muted">{EMPTY[result]}</p>}
          <p class="pagination">
            {cursor && (
              <a class="button" href={page({})}>
                First
              </a>
            )}
            {data.next_cursor && (
              <a class="button" href={page({ cursor: data.next_cursor })}>
                Next
              </a>
            )}
          </p>
        </>
      )}
    </section>
  );
}

function ItemRows({ items, tenant }: { items: OperationItem[]; tenant: string }) {
  return (
    <table class="rows">
      <thead>
        <tr>
          <th scope="col" class="count">
            No.
          </th>
          <th scope="col">Dead letter</th>
          <th scope="col">Result</th>
          <th scope="col">Reason</th>
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <tr key={item.number}>
            <td data-label="No." class="count">
              {formatNumber(item.number)}
            </td>
            <td data-label="Dead letter">
              <ItemName item={item} tenant={tenant} />
            </td>
            <td data-label="Result">
              {item.result ? <Status status={item.result} /> : <span class="muted">Remaining</span>}
            </td>
            <td data-label="Reason">{item.reason}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// The dead letter's error with its file or type, and its short id.
function ItemName({ item: { job_id: id, dead_letter: deadLetter }, tenant }: { item: OperationItem; tenant: string }) {
  const short = <code title={id}>…{shortId(id)}</code>;
  return deadLetter ? (
    <>
      <a href={navigate.href(`dead-letters/${id}`, { tenant })}>{errorTitle(deadLetter.metadata.last_error)}</a>{" "}
      <span class="muted">
        {deadLetter.file_name ?? toLabel(deadLetter.task_type)}, {short}
      </span>
    </>
  ) : (
    <span class="muted">Deleted or purged, {short}</span>
  );
}
