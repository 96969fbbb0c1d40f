// Actions on a dead letter, and the dialog that asks for a note.

import { useEffect, useState } from "preact/hooks";
import { ApiError, etagOf, get, type Schemas, send } from "../api";
import { hasRole } from "../roles";
import { UNASSIGNED } from "../tenant";
import { FactList } from "../ui/components";
import { NoteDialog } from "../ui/dialog";
import { Time, toLabel } from "../ui/format";
import { UserName } from "../ui/user_name";

export type DeadLetter = Schemas["DeadLetter"];
export type DeadLetterSummary = Schemas["DeadLetterSummary"];
export type DeadLetterStatus = DeadLetterSummary["status"];
export type Action = "retry" | "resolve" | "ignore";

// An action on a dead letter. `key`: keyboard shortcut. `status`: the dead letter's status after the action. `done`:
// message after the action.
type ActionText = {
  key: string;
  verb: string;
  status: DeadLetterStatus;
  done: string;
  isNoteRequired: boolean;
  field: "notes" | "reason";
  label: string;
  description: string;
};

// Actions by API name.
export const ACTIONS: Record<Action, ActionText> = {
  retry: {
    key: "r",
    verb: "Retry",
    status: "retried",
    done: "The retry was requested.",
    isNoteRequired: false,
    field: "notes",
    label: "Reason for the retry",
    description: "The work item is retried, and its attempt count starts again at zero.",
  },
  resolve: {
    key: "e",
    verb: "Resolve",
    status: "resolved",
    done: "The dead letter was resolved.",
    isNoteRequired: true,
    field: "notes",
    label: "How was it resolved?",
    description: "The failure was handled in another way. The work item is not retried.",
  },
  ignore: {
    key: "i",
    verb: "Ignore",
    status: "ignored",
    done: "The dead letter was ignored.",
    isNoteRequired: true,
    field: "reason",
    label: "Why can it be ignored?",
    description: "The failure needs no action. The work item is not retried.",
  },
};

export const ACTION_LIST = Object.entries(ACTIONS) as [Action, ActionText][];

export function canChange(deadLetter: DeadLetterSummary) {
  return deadLetter.status === "pending" && hasRole("operator");
}

// Returns whether bulk actions are available. Unassigned dead letters can only be closed one by one.
export function canChangeMany(tenant: string | null) {
  return hasRole("operator") && tenant !== UNASSIGNED;
}

// Descriptions of changes to a dead letter, by outcome.
const PAST: Record<string, string> = {
  retried: "retried the dead letter",
  resolved: "resolved the dead letter",
  ignored: "ignored the dead letter",
  edited: "edited the payload",
};

export const pathOf = (deadLetter: { job_id: string }) => `admin/dlq/${encodeURIComponent(deadLetter.job_id)}`;

// Returns the current dead letter and its last change, for use after a conflict.
async function fetchLatest(deadLetter: DeadLetterSummary) {
  const [now, { events }] = await Promise.all([
    get<DeadLetter>(pathOf(deadLetter)),
    get<Schemas["DeadLetterTimeline"]>(`${pathOf(deadLetter)}/timeline`),
  ]);
  return { now, last: events.findLast((event) => event.kind === "change") ?? null };
}

// Changes a dead letter with the expected version, and reports other changes. `seen` is the version that the user
// started from. The displayed version may be newer. `input`: what the user entered.
export function useVersion(deadLetter: DeadLetterSummary, input: "note" | "edit") {
  const [seen, setSeen] = useState(deadLetter);
  const [last, setLast] = useState<Schemas["DeadLetterEvent"] | null>(null);
  const catchUp = async () => {
    const found = await fetchLatest(seen);
    if (found.now.version !== seen.version) {
      setSeen(found.now);
      setLast(found.last);
    }
    return found.now.version !== seen.version;
  };
  // The user learns immediately that another user closed the dead letter, and of other changes on submitting.
  useEffect(() => {
    if (deadLetter.status !== seen.status) {
      catchUp().catch(() => {}); // the API will reject the change and give a reason
    }
  }, [deadLetter.status]);
  const act = async (method: "POST" | "PATCH", path: string, body: object | string) => {
    try {
      return await send(method, path, body, { etag: etagOf(seen.version) });
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 412 && error.status !== 409)) {
        throw error;
      }
      if (!(await catchUp())) {
        throw error;
      }
      throw new ApiError(error.status, `The dead letter changed after you opened it. Your ${input} is still here.`);
    }
  };
  return {
    seen,
    act,
    conflictNotice: last && <ConflictNotice last={last} deadLetter={seen} />,
    isClosed: seen.status !== "pending",
  };
}

function ConflictNotice({ last, deadLetter }: { last: Schemas["DeadLetterEvent"]; deadLetter: DeadLetterSummary }) {
  return (
    <div class="notice conflict">
      <p>
        <b>
          <UserName value={last.actor} isCapitalized /> {PAST[last.outcome] ?? "changed the dead letter"}
        </b>{" "}
        at <Time at={last.at} />.
      </p>
      {deadLetter.resolution?.notes && <p>“{deadLetter.resolution.notes}”</p>}
      {deadLetter.status === "pending" && (
        <p>The dead letter is still pending. Repeat the action if it still applies.</p>
      )}
    </div>
  );
}

export function ActionDialog({
  deadLetter,
  action,
  close,
  done,
}: {
  deadLetter: DeadLetterSummary;
  action: Action;
  close: () => void;
  done: (sentence: string, status: DeadLetterStatus) => void;
}) {
  const { verb, status, isNoteRequired, field, label, description, done: sentence } = ACTIONS[action];
  const { seen, act, conflictNotice, isClosed } = useVersion(deadLetter, "note");
  const error = seen.metadata.last_error;
  const submit = async (note: string) => {
    await act("POST", `${pathOf(seen)}/${action}`, note ? { [field]: note } : {});
    done(sentence, status);
  };
  return (
    <NoteDialog
      title={`${verb} this dead letter?`}
      verb={verb}
      label={label}
      isRequired={isNoteRequired}
      blockedReason={isClosed ? `This dead letter was already ${seen.status}.` : null}
      act={submit}
      close={close}
    >
      <p>{description}</p>
      {action === "retry" && seen.status === "pending" && (
        <p class="muted">If the payload was edited, the retry uses the edited payload.</p>
      )}
      <FactList
        facts={[
          ["Error", <span class="line-clamp">{error.message || error.type}</span>],
          ["Type", toLabel(seen.task_type)],
        ]}
      />
      {conflictNotice}
    </NoteDialog>
  );
}
