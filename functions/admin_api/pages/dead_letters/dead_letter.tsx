// One dead letter: its error, its payload, its history and actions.

import { useState } from "preact/hooks";
import { POLL_FAST_SECONDS, POLL_LEADER_SECONDS, POLL_SLOW_SECONDS, type Schemas, useQuery } from "../api";
import { AuditEntries } from "../audit/audit";
import { workerName } from "../overview/overview";
import { navigate } from "../router";
import {
  Command,
  CopyableId,
  ErrorNotice,
  type Fact,
  FactList,
  Loading,
  Notice,
  Status,
  SuccessNotice,
  useTitle,
} from "../ui/components";
import { formatDuration, formatNumber, secondsBetween, Time, toLabel } from "../ui/format";
import { Json } from "../ui/json";
import { useShortcuts } from "../ui/shortcuts";
import { UserName } from "../ui/user_name";
import { ACTION_LIST, type Action, ActionDialog, canChange, type DeadLetter, type DeadLetterStatus } from "./actions";
import { logCommand, traceCommand } from "./aws_commands";
import { errorTitle } from "./error_title";
import { Payload } from "./payload";

type LastError = Schemas["LastError"];

const REASONS: Record<string, string> = {
  max_retries_exceeded: "All attempts failed",
  non_retriable_error: "Permanent error",
};

const reasonOf = (reason: string) => REASONS[reason] ?? toLabel(reason);

export function DeadLetterView({ id }: { id: string }) {
  const path = `admin/dlq/${encodeURIComponent(id)}`;
  const {
    data: deadLetter,
    error,
    busy,
    reload,
  } = useQuery<Schemas["DeadLetter"]>([path, {}], { every: POLL_LEADER_SECONDS, exact: true });
  const [notice, setNotice] = useState<{ sentence: string; status: DeadLetterStatus } | null>(null);
  const failure = deadLetter?.metadata.last_error;
  const title = failure ? errorTitle(failure) : "Dead letter";
  useTitle(failure ? `${title} · Dead letter` : title);
  const back = (
    <p>
      <a href={navigate.href("dead-letters", { tenant: deadLetter?.tenant })}>All dead letters</a>
    </p>
  );
  if (!deadLetter || !failure) {
    if (error?.status === 404) {
      return (
        <>
          {back}
          <Notice isWholePage title="Dead letter not found">
            It was deleted, or it belongs to a tenant that you cannot access.
          </Notice>
        </>
      );
    }
    return (
      <>
        {back}
        <h1>Dead letter</h1>
        {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the dead letter" />}
      </>
    );
  }
  // `sentence` is displayed until the status differs from `status`, for example after another failure.
  const done = (sentence: string, status: DeadLetterStatus = "pending") => {
    setNotice({ sentence, status });
    reload();
  };
  return (
    <>
      {back}
      <h1>
        <Status status={deadLetter.status} /> {title}
      </h1>
      <p class="muted">{failure.type}</p>
      {error && <ErrorNotice error={error} reload={reload} />}
      {failure.message.trim() !== title && <p class="error">{failure.message || "The error has no message."}</p>}
      {notice?.status === deadLetter.status && <SuccessNotice>{notice.sentence}</SuccessNotice>}
      <Actions deadLetter={deadLetter} busy={busy} done={done} />
      <Facts deadLetter={deadLetter} />
      <ErrorContext error={failure} />
      <Payload deadLetter={deadLetter} done={done} />
      <EarlierFailures previous_failures={deadLetter.previous_failures} />
      <Timeline path={`${path}/timeline`} version={deadLetter.version} isRetried={deadLetter.status === "retried"} />
      <AuditTrail deadLetter={deadLetter} />
    </>
  );
}

// A dialog stays open when another user closes the dead letter, so that the note is not lost. While the dead letter is
// loading (`busy`), no dialog opens, because it would report the user's own edit as a conflict.
function Actions({
  deadLetter,
  busy,
  done,
}: {
  deadLetter: DeadLetter;
  busy: boolean;
  done: (sentence: string, status?: DeadLetterStatus) => void;
}) {
  const [action, setAction] = useState<Action | null>(null);
  const offered = canChange(deadLetter) ? ACTION_LIST : [];
  const open = (name: Action) => busy || setAction(name);
  useShortcuts(offered.map(([name, { key, verb }]) => ({ key, label: verb, act: () => open(name) })));
  return (
    <>
      {offered.length > 0 && (
        <div class="buttons actions">
          {offered.map(([name, { verb, key }], at) => (
            <button
              type="button"
              class={at === 0 ? "primary" : undefined}
              aria-keyshortcuts={key}
              aria-disabled={busy}
              onClick={() => open(name)}
            >
              {verb}…
            </button>
          ))}
        </div>
      )}
      {action && (
        <ActionDialog
          key={action}
          deadLetter={deadLetter}
          action={action}
          close={() => setAction(null)}
          done={(sentence, status) => {
            setAction(null);
            done(sentence, status);
          }}
        />
      )}
    </>
  );
}

function Facts({ deadLetter }: { deadLetter: DeadLetter }) {
  const { resolution } = deadLetter;
  const group = navigate.href("dead-letters", {
    tenant: deadLetter.tenant,
    status: "all",
    fingerprint: deadLetter.fingerprint,
  });
  const facts: Fact[] = [
    ["Failed", <Time at={deadLetter.dlq_timestamp} showsUtc />],
    ["Reason", reasonOf(deadLetter.dlq_reason)],
    ["Attempts", formatNumber(deadLetter.attempts)],
    ["Type", toLabel(deadLetter.task_type)],
    ["Worker", toLabel(deadLetter.worker)],
    ["Tenant", deadLetter.tenant],
    ["Dead letter", <CopyableId value={deadLetter.job_id} />],
    [
      "Work item",
      deadLetter.work_id ? (
        <WorkItem deadLetter={deadLetter} id={deadLetter.work_id} />
      ) : (
        "None, because the message could not be parsed"
      ),
    ],
    ["Group", <a href={group}>Dead letters with the same error</a>],
  ];
  if (deadLetter.file_name) {
    facts.unshift(["File", deadLetter.file_name]);
  }
  if (deadLetter.resolved_at) {
    facts.push([
      "Closed",
      <>
        <Time at={deadLetter.resolved_at} showsUtc /> by <UserName value={deadLetter.resolved_by} />
      </>,
    ]);
  }
  if (resolution?.notes) {
    facts.push(["Note", resolution.notes]);
  }
  return <FactList facts={facts} />;
}

// Workers whose work items have a page in the console.
const PAGES: Record<string, { path: string; name: string } | undefined> = {
  ingestion: { path: "documents", name: "Document" },
  matching: { path: "documents", name: "Document" },
  tasks: { path: "tasks", name: "Task" },
};

function WorkItem({ deadLetter, id: workId }: { deadLetter: DeadLetter; id: string }) {
  const page = PAGES[deadLetter.worker];
  const id = <CopyableId value={workId} />;
  return page ? (
    <>
      <a href={navigate.href(`${page.path}/${workId}`, { tenant: deadLetter.tenant })}>{page.name}</a> {id}
    </>
  ) : (
    id
  );
}

const KNOWN = new Set(["type", "message", "timestamp", "context", "stack", "traceback"]);

// The last error's context and stack trace.
function ErrorContext({ error }: { error: LastError }) {
  const stack = error.stack ?? error.traceback ?? error.context?.stack ?? error.context?.traceback;
  // The stack is shown separately. Worker and attempt are shown above.
  const { stack: _stack, traceback: _traceback, worker: _worker, attempt: _attempt, ...context } = error.context ?? {};
  const others = Object.entries(error).filter(([name]) => !KNOWN.has(name));
  const stated = [...Object.entries(context), ...others].filter(([, value]) => value !== null);
  const rest = Object.fromEntries(stated);
  const plain = Object.values(rest).every((value) => typeof value !== "object");
  if (!stack && !Object.keys(rest).length) {
    return null;
  }
  return (
    <section aria-labelledby="error-context">
      <h2 id="error-context">Error context</h2>
      {Object.keys(rest).length > 0 &&
        (plain ? (
          <FactList
            facts={Object.entries(rest).map(([name, value]) => [toLabel(name), <code>{String(value)}</code>])}
          />
        ) : (
          <Json value={rest} label="Error context as JSON" />
        ))}
      {stack && (
        <details>
          <summary>Stack trace</summary>
          <pre tabindex={0} role="region" aria-label="Stack">
            {stack}
          </pre>
        </details>
      )}
    </section>
  );
}

function EarlierFailures({ previous_failures }: { previous_failures: DeadLetter["previous_failures"] }) {
  if (!previous_failures.length) {
    return null;
  }
  return (
    <section aria-labelledby="failures">
      <h2 id="failures">Previous failures</h2>
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Failed</th>
            <th scope="col">Error</th>
            <th scope="col">Action</th>
          </tr>
        </thead>
        <tbody>
          {[...previous_failures].reverse().map((failure) => (
            <tr>
              <td data-label="Failed">
                <Time at={failure.dlq_timestamp} />
              </td>
              <td data-label="Error">{failure.last_error?.message ?? reasonOf(failure.dlq_reason)}</td>
              <td data-label="Action">
                <Status status={failure.status} />{" "}
                {failure.resolution?.notes && <span class="muted">{failure.resolution.notes}</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

// Reloads for each new version of the dead letter, and polls more often after a retry.
function Timeline({ path, version, isRetried }: { path: string; version: number; isRetried: boolean }) {
  const { data, error, reload } = useQuery<Schemas["DeadLetterTimeline"]>([path, {}], {
    every: isRetried ? POLL_FAST_SECONDS : POLL_SLOW_SECONDS,
    version,
  });
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">History</h2>
      {error && !data ? (
        <ErrorNotice error={error} reload={reload} />
      ) : !data ? (
        <Loading subject="the history" />
      ) : (
        <ol class="timeline">
          {data.events.map((event) => (
            <TimelineEvent event={event} />
          ))}
        </ol>
      )}
    </section>
  );
}

const KINDS = { attempt: "Attempt", dead_lettered: "Failure", change: "Change" };

function TimelineEvent({ event }: { event: Schemas["DeadLetterEvent"] }) {
  const seconds = event.started_at ? secondsBetween(event.started_at, event.at) : null;
  const title = event.kind === "attempt" && event.attempt ? `Attempt ${event.attempt}` : KINDS[event.kind];
  const attempt = title.toLowerCase();
  return (
    <li class={event.kind}>
      <p>
        <b>
          {title}: {reasonOf(event.outcome)}
        </b>{" "}
        <span class="muted">
          <Time at={event.at} />, {event.kind === "change" ? <UserName value={event.actor} /> : workerName(event.actor)}
          {seconds !== null && `, took ${formatDuration(seconds)}`}
        </span>
      </p>
      {event.error?.message && (
        <p class="error">
          {event.error.message} <span class="muted">{event.error.type}</span>
        </p>
      )}
      {event.next_attempt_at && (
        <p class="muted">
          Next attempt at <Time at={event.next_attempt_at} />
        </p>
      )}
      {event.log && (
        <details>
          <summary>Log</summary>
          {event.log.url && (
            <p>
              <a href={event.log.url} target="_blank" rel="noreferrer">
                Log of {attempt} in the AWS console
              </a>
            </p>
          )}
          <Command text={logCommand(event.log)} label={`Command for the log of ${attempt}`} />
        </details>
      )}
      {event.trace_id && (
        <details>
          <summary>Trace</summary>
          {event.trace_url && (
            <p>
              <a href={event.trace_url} target="_blank" rel="noreferrer">
                Trace of {attempt} in the AWS console
              </a>
            </p>
          )}
          <Command text={traceCommand(event.trace_id)} label={`Command for the trace of ${attempt}`} />
        </details>
      )}
    </li>
  );
}

function AuditTrail({ deadLetter }: { deadLetter: DeadLetter }) {
  const query = { tenant: deadLetter.tenant, target: deadLetter.job_id };
  const { data, error, reload } = useQuery<Schemas["AuditPage"]>(["admin/dlq/audit", query], {
    version: deadLetter.version,
  });
  return (
    <section aria-labelledby="trail">
      <h2 id="trail">Audit trail</h2>
      {error && !data ? (
        <ErrorNotice error={error} reload={reload} />
      ) : !data ? (
        <Loading subject="the audit trail" />
      ) : data.entries.length ? (
        <AuditEntries entries={data.entries} tenant={deadLetter.tenant} isSingleTarget />
      ) : (
        <p class="muted">No changes.</p>
      )}
      <p>
        <a href={navigate.href("audit", query)}>View in the audit trail</a>
      </p>
    </section>
  );
}
