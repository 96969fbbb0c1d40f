// Bulk operations on selected dead letters, or on all that match the filter. Each one has a rate and its own page.

import { useEffect, useState } from "preact/hooks";
import { type Schemas, send } from "../api";
import { navigate } from "../router";
import { ErrorNotice } from "../ui/components";
import { NoteDialog } from "../ui/dialog";
import { formatCount, formatNumber, startOfDay, toLabel } from "../ui/format";
import { ACTION_LIST, ACTIONS, type Action, type DeadLetterSummary } from "./actions";
import type { ListFilter } from "./dead_letters";

type BulkFilter = Omit<Schemas["BulkFilter"], "status"> & { status?: DeadLetterSummary["status"][] };

export const MAX_SELECTED = 1000;
const RETRY_RATE = 50; // per second, which leaves capacity for other work items
const CANARY = 5;
export const MAX_PER_SECOND = 500;

// Converts the list's filter to a bulk operation's filter.
export function bulkFilterOf({ tenant, status, task_type, search, from, to, fingerprint }: ListFilter): BulkFilter {
  const all = {
    tenant,
    status,
    task_type,
    search,
    from_date: startOfDay(from),
    to_date: startOfDay(to, 1),
    fingerprint,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
}

export function BulkBar({
  filter,
  chosen,
  page,
  choose,
  clear,
  begin,
}: {
  filter: ListFilter;
  chosen: Map<string, DeadLetterSummary>;
  page: DeadLetterSummary[];
  choose: (deadLetters: DeadLetterSummary[], on: boolean) => void;
  clear: () => void;
  begin: (action: Action) => void;
}) {
  if (!filter.status.includes("pending")) {
    return null;
  }
  const all = page.length > 0 && page.every((deadLetter) => chosen.has(deadLetter.job_id));
  const some = !all && page.some((deadLetter) => chosen.has(deadLetter.job_id));
  return (
    <div class="bulk" role="group" aria-label="Bulk actions">
      <label class="choice">
        <input
          type="checkbox"
          checked={all}
          indeterminate={some}
          disabled={!page.length}
          onChange={(event) => choose(page, event.currentTarget.checked)}
        />{" "}
        Select all on this page
      </label>
      <span class="number" role="status">
        {chosen.size
          ? `${formatNumber(chosen.size)} selected${chosen.size === MAX_SELECTED ? " (the maximum)" : ""}`
          : "None selected. Actions apply to all pending dead letters that match the filter."}
      </span>
      <div class="buttons">
        {ACTION_LIST.map(([name, { verb }]) => (
          <button type="button" onClick={() => begin(name)}>
            {verb}…
          </button>
        ))}
        {chosen.size > 0 && (
          <button type="button" class="link" onClick={clear}>
            Clear selection
          </button>
        )}
      </div>
    </div>
  );
}

// `deadLetters`: the selected dead letters. If empty, the operation covers all pending dead letters that match the
// filter. `group`: a dead letter group's error message.
export function BulkDialog({
  action,
  deadLetters,
  filter,
  group = null,
  close,
  onStarted = () => {},
}: {
  action: Action;
  deadLetters: DeadLetterSummary[];
  filter: BulkFilter;
  group?: string | null;
  close: () => void;
  onStarted?: () => void;
}) {
  const { verb, isNoteRequired, field, label } = ACTIONS[action];
  const [scope, setScope] = useState(deadLetters.length ? "selected" : "found");
  const [rate, setRate] = useState<number | string>(action === "retry" ? RETRY_RATE : MAX_PER_SECOND);
  const [hasCanary, setHasCanary] = useState(false);
  const [canary, setCanary] = useState<number | string>(CANARY);
  const [found, setFound] = useState<Schemas["BulkPreview"] | { error: Error } | null>(null);
  const [round, setRound] = useState(0);
  const pendingFilter = { ...filter, status: ["pending"] };
  useEffect(() => {
    let gone = false;
    if (scope === "found") {
      setFound(null);
      send<Schemas["BulkPreview"]>("POST", `admin/dlq/bulk-${action}`, { filter: pendingFilter, dry_run: true }).then(
        ({ data }) => gone || setFound(data),
        (error) => gone || setFound({ error }),
      );
    }
    return () => {
      gone = true;
    };
  }, [scope, round]);
  const preview = found && !("error" in found) ? found : null;
  const count = scope === "selected" ? deadLetters.length : (preview?.count ?? null);
  const submit = async (note: string) => {
    const body = {
      ...(scope === "selected"
        ? { job_ids: deadLetters.map((deadLetter) => deadLetter.job_id) }
        : { filter: pendingFilter }),
      dry_run: false,
      rate: Number(rate),
      ...(hasCanary && action === "retry" ? { canary: Number(canary) } : {}),
      ...(note ? { [field]: note } : {}),
    };
    const { data } = await send<Schemas["OperationProgress"]>("POST", `admin/dlq/bulk-${action}`, body);
    onStarted();
    navigate(`operations/${data.operation_id}`, { tenant: filter.tenant });
  };
  const blockedReason =
    scope === "found" && !preview?.count ? (preview?.count === 0 ? "No pending dead letters." : "") : null;
  return (
    <NoteDialog
      title={`${verb} ${count === null ? "matching dead letters" : formatCount(count, "dead letter")}?`}
      verb={count === null ? verb : `${verb} ${formatNumber(count)}`}
      label={label}
      isRequired={isNoteRequired}
      blockedReason={blockedReason}
      act={submit}
      close={close}
    >
      {deadLetters.length > 0 && (
        <fieldset>
          <legend>Dead letters</legend>
          <label class="choice">
            <input type="radio" name="scope" checked={scope === "selected"} onChange={() => setScope("selected")} />
            The {formatNumber(deadLetters.length)} selected
          </label>
          <label class="choice">
            <input type="radio" name="scope" checked={scope === "found"} onChange={() => setScope("found")} />
            All pending dead letters that match the filter
          </label>
        </fieldset>
      )}
      {group ? (
        <p>
          All pending dead letters in the group: <b class="line-clamp">{group}</b>
        </p>
      ) : (
        !deadLetters.length && <p>All pending dead letters that match the filter.</p>
      )}
      <div role="status">
        {scope === "found" &&
          (found === null ? (
            <p class="muted">Counting…</p>
          ) : "error" in found ? (
            <ErrorNotice error={found.error} reload={() => setRound(round + 1)} />
          ) : (
            <Sample found={found} />
          ))}
      </div>
      <div class="fields">
        <label>
          At most{" "}
          <input
            type="number"
            min="1"
            max={MAX_PER_SECOND}
            required
            value={rate}
            onInput={(event) => setRate(event.currentTarget.value)}
          />{" "}
          per second
        </label>
        {action === "retry" && (
          <div>
            <label class="choice">
              <input
                type="checkbox"
                checked={hasCanary}
                onChange={(event) => setHasCanary(event.currentTarget.checked)}
              />
              Start with a canary of
            </label>{" "}
            <input
              type="number"
              min="1"
              max="10000"
              required
              value={canary}
              disabled={!hasCanary}
              aria-label="Canary size"
              onInput={(event) => setCanary(event.currentTarget.value)}
            />{" "}
            dead letters
            <p class="muted">The rest follow if the canary succeeds.</p>
          </div>
        )}
      </div>
    </NoteDialog>
  );
}

function Sample({ found }: { found: Schemas["BulkPreview"] }) {
  if (!found.count) {
    return null;
  }
  return (
    <>
      <p>
        <b>
          {formatNumber(found.count)}
          {found.is_exact ? "" : " or more"}
        </b>{" "}
        {found.count === 1 ? "dead letter matches" : "dead letters match"} now.
        {found.sample.length < found.count && ` The newest ${formatNumber(found.sample.length)}:`}
      </p>
      <ul class="sample" tabindex={0} aria-label="Sample">
        {found.sample.map((deadLetter) => {
          const error = deadLetter.metadata.last_error;
          return (
            <li>
              <b>{toLabel(deadLetter.task_type)}</b> <span class="line-clamp">{error.message || error.type}</span>
            </li>
          );
        })}
      </ul>
    </>
  );
}
