// One task: its payload, result and attempts.

import { useState } from "preact/hooks";
import { type ApiError, POLL_FAST_SECONDS, type Schemas, send, useQuery } from "../api";
import { hasRole } from "../roles";
import { navigate } from "../router";
import { CopyableId, ErrorNotice, type Fact, FactList, Loading, Notice, Status, useTitle } from "../ui/components";
import { Dialog } from "../ui/dialog";
import { formatDuration, formatNumber, secondsBetween, Time, toLabel } from "../ui/format";
import { Json } from "../ui/json";

type TaskHistory = Schemas["TaskHistory"];
type TaskSummary = Schemas["TaskSummary"];

export const ACTIVE_STATUSES = ["pending", "in-progress"];

export function Task({ id }: { id: string }) {
  const {
    data: task,
    error,
    reload,
  } = useQuery<Schemas["TaskHistory"]>([`tasks/${encodeURIComponent(id)}`, {}], { every: POLL_FAST_SECONDS });
  useTitle(task ? `${toLabel(task.task_type)} · Task` : "Task");
  const back = (
    <p>
      <a href={navigate.href("tasks", { tenant: task?.tenant })}>All tasks</a>
    </p>
  );
  if (!task) {
    return (
      <>
        {back}
        {error?.status === 404 ? (
          <Notice isWholePage title="Task not found">
            It was deleted, or it belongs to another user.
          </Notice>
        ) : (
          <>
            <h1>Task</h1>
            {error ? <ErrorNotice error={error} reload={reload} /> : <Loading subject="the task" />}
          </>
        )}
      </>
    );
  }
  return (
    <>
      {back}
      <h1>
        <Status status={task.status} /> {toLabel(task.task_type)}
      </h1>
      {error && <ErrorNotice error={error} reload={reload} />}
      {task.error && <p class="error">{task.error}</p>}
      <Facts task={task} />
      {hasRole("operator") && ACTIVE_STATUSES.includes(task.status) && (
        <p class="buttons">
          <Cancel task={task} done={reload} />
        </p>
      )}
      {task.result !== null && (
        <section aria-labelledby="result">
          <h2 id="result">Result</h2>
          <Json value={task.result} label="Result as JSON" />
        </section>
      )}
      <section aria-labelledby="attempts">
        <h2 id="attempts">Attempts</h2>
        {task.timeline.length ? (
          <ol class="timeline">
            {task.timeline.map((one) => (
              <Attempt attempt={one} />
            ))}
          </ol>
        ) : (
          <p class="muted">
            {task.attempts
              ? "The first attempt is in progress."
              : ACTIVE_STATUSES.includes(task.status)
                ? "No attempts yet."
                : "No attempts were made."}
          </p>
        )}
      </section>
    </>
  );
}

function Facts({ task }: { task: TaskHistory }) {
  const facts: Fact[] = [
    ["Submitted", <Time at={task.created_at} showsUtc />],
    ["Attempts", `${formatNumber(task.attempts)} of ${formatNumber(task.max_retry + 1)}`],
    ["Tenant", task.tenant],
    ["Task", <CopyableId value={task.job_id} />],
  ];
  if (task.next_attempt_at) {
    facts.push(["Next attempt", <Time at={task.next_attempt_at} showsUtc />]);
  }
  if (task.ended_at) {
    facts.push(["Ended", <Time at={task.ended_at} showsUtc />]);
  }
  if (task.dead_letter) {
    const href = navigate.href(`dead-letters/${task.dead_letter}`, { tenant: task.tenant });
    facts.push([
      "Dead letter",
      <a href={href}>{task.status === "failed" ? "See why it failed, or retry it" : "See the earlier failure"}</a>,
    ]);
  }
  facts.push(["Idempotency key", <code>{task.idempotency_key}</code>]);
  return <FactList facts={facts} />;
}

// A button that cancels a task after a confirmation.
export function Cancel({ task, done, small = false }: { task: TaskSummary; done: () => void; small?: boolean }) {
  const [isOpen, setIsOpen] = useState(false);
  const [state, setState] = useState<{ busy: boolean; error: ApiError | null }>({ busy: false, error: null });
  const close = () => {
    setIsOpen(false);
    setState({ busy: false, error: null });
  };
  const cancel = async () => {
    setState({ busy: true, error: null });
    try {
      await send("POST", `tasks/${task.job_id}/cancel`);
      close();
    } catch (error) {
      setState({ busy: false, error: error as ApiError });
    }
    done(); // after a conflict, the current status is visible behind the dialog
  };
  return (
    <>
      <button
        type="button"
        class={small ? "small" : ""}
        aria-label={`Cancel ${toLabel(task.task_type)} ${task.job_id}…`}
        onClick={() => setIsOpen(true)}
      >
        Cancel…
      </button>
      {isOpen && (
        <Dialog title="Cancel this task?" close={close} busy={state.busy}>
          <p>
            {toLabel(task.task_type)}, submitted <Time at={task.created_at} />. The task will not start again. If an
            attempt is in progress, its result is discarded.
          </p>
          {state.error && (
            <p class="failure" role="alert">
              {state.error.message}
            </p>
          )}
          <div class="buttons">
            <button class="primary" type="button" disabled={state.busy || state.error?.status === 409} onClick={cancel}>
              Cancel the task
            </button>
            <button type="button" disabled={state.busy} onClick={close}>
              Keep the task
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

function Attempt({ attempt }: { attempt: Schemas["TaskAttempt"] }) {
  const seconds = secondsBetween(attempt.started_at, attempt.ended_at);
  return (
    <li>
      <p>
        <b>
          Attempt {attempt.attempt}: {toLabel(attempt.outcome)}
        </b>
        {attempt.revision > 1 && (
          <>
            {" "}
            <span class="muted">(revision {attempt.revision})</span>
          </>
        )}
        <span class="muted">
          {" "}
          <Time at={attempt.ended_at} />, took {formatDuration(seconds)}
        </span>
      </p>
      {attempt.error && <p class="error">{attempt.error}</p>}
      {attempt.next_attempt_at && (
        <p class="muted">
          Next attempt at <Time at={attempt.next_attempt_at} />
        </p>
      )}
    </li>
  );
}
