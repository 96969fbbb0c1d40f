// The payload, which authorized users can edit. The task's next attempt uses the edited payload.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, parseJsonExact, type Schemas, useQuery } from "../api";
import { canEditPayloads } from "../roles";
import { ErrorNotice, Loading } from "../ui/components";
import { Dialog } from "../ui/dialog";
import { formatNumber, toLabel } from "../ui/format";
import { Json } from "../ui/json";
import { findJsonError, lineAt, positionOfField } from "../ui/json_text";
import { useShortcuts } from "../ui/shortcuts";
import { type DeadLetter, pathOf, useVersion } from "./actions";
import { diff, withContext } from "./diff";

const TASKS = "tasks";
const MAX_NOTE_LENGTH = 2000;

export function Payload({ deadLetter, done }: { deadLetter: DeadLetter; done: (sentence: string) => void }) {
  const [open, setOpen] = useState(false);
  const seen = deadLetter.worker === TASKS && canEditPayloads();
  // Users who may edit payloads see the task's payload. Other users see only the message.
  const question = seen ? ([`${pathOf(deadLetter)}/payload`, {}] as const) : null;
  const { data: task } = useQuery<Schemas["DeadLetterPayload"]>(question, { exact: true, version: deadLetter.version });
  const editable = task && deadLetter.status === "pending";
  const hidden = deadLetter.redacted_paths.filter((pointer) => pointer.startsWith("/payload")).length;
  useShortcuts(editable ? [{ key: "p", label: "Edit the payload", act: () => setOpen(true) }] : []);
  return (
    <section aria-labelledby="payload">
      <div class="heading">
        <h2 id="payload">Payload</h2>
        {editable && (
          <button type="button" onClick={() => setOpen(true)}>
            Edit…
          </button>
        )}
      </div>
      {hidden > 0 && (
        <p class="muted">
          {hidden === 1 ? "One value is" : `${formatNumber(hidden)} values are`} hidden from your role.
        </p>
      )}
      {task ? (
        <>
          <Json value={task.original} label="Payload as JSON" />
          {task.edited && (
            <>
              <h3>Edited payload for the next attempt</h3>
              <Differences before={pretty(task.original)} after={pretty(task.edited)} />
            </>
          )}
          <details>
            <summary>Message</summary>
            <Json value={deadLetter.payload} label="Message as JSON" />
          </details>
        </>
      ) : (
        <Json value={deadLetter.payload} label="Payload as JSON" />
      )}
      {open && (
        <Editing
          deadLetter={deadLetter}
          close={() => setOpen(false)}
          done={(sentence) => {
            setOpen(false);
            done(sentence);
          }}
        />
      )}
    </section>
  );
}

const pretty = (value: unknown) => JSON.stringify(value, null, 2);

function Editing({
  deadLetter,
  close,
  done,
}: {
  deadLetter: DeadLetter;
  close: () => void;
  done: (sentence: string) => void;
}) {
  const { data, error, reload } = useQuery<Schemas["DeadLetterPayload"]>([`${pathOf(deadLetter)}/payload`, {}], {
    exact: true,
  });
  if (!data) {
    return (
      <Dialog title="Edit the payload" close={close}>
        {error?.status === 409 ? (
          <p>{error.message}</p>
        ) : error ? (
          <ErrorNotice error={error} reload={reload} />
        ) : (
          <Loading subject="the payload" />
        )}
        <div class="buttons">
          <button type="button" onClick={close}>
            Close
          </button>
        </div>
      </Dialog>
    );
  }
  return <Editor deadLetter={deadLetter} payload={data} close={close} done={done} />;
}

function Editor({
  deadLetter,
  payload,
  close,
  done,
}: {
  deadLetter: DeadLetter;
  payload: Schemas["DeadLetterPayload"];
  close: () => void;
  done: (sentence: string) => void;
}) {
  const before = pretty(payload.edited ?? payload.original);
  const { act, conflictNotice, isClosed } = useVersion({ ...deadLetter, version: payload.version }, "edit");
  const [text, setText] = useState(before);
  const [note, setNote] = useState("");
  const [looking, setLooking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<{ message: string; at?: number | null } | null>(null);
  const wrong = findJsonError(text);
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useEffect(() => field.current?.focus(), [looking]);
  const show = (at: number) => {
    field.current?.focus();
    field.current?.setSelectionRange(at, at + 1);
  };
  const look = (event: Event) => {
    event.preventDefault();
    if (wrong) {
      show(wrong.at);
      return;
    }
    setFailure(null);
    setLooking(true);
  };
  const save = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const trimmedNote = note.trim().replace(/\s*\n\s*/g, " ");
      // The text is sent as typed, because JavaScript would turn 1.0 into 1.
      await act(
        "PATCH",
        `${pathOf(deadLetter)}/payload`,
        `{"payload":${text}${trimmedNote ? `,"notes":${JSON.stringify(trimmedNote)}` : ""}}`,
      );
      done("The payload was edited. The next attempt uses it.");
    } catch (error) {
      setBusy(false);
      const { message } = error as Error;
      setFailure({ message, at: positionOfField(text, message) });
      setLooking(!(error instanceof ApiError && error.status === 422));
    }
  };
  const problem = wrong ?? failure;
  const at = problem?.at ?? null;
  const same = !wrong && pretty(parseJsonExact(text)) === before;
  if (looking) {
    return (
      <Dialog key="looking" title="Review the change" close={close} busy={busy} wide>
        <Differences before={before} after={pretty(parseJsonExact(text))} />
        <label class="field" for={`${id}-note`}>
          Reason <span class="muted">(optional)</span>
        </label>
        <textarea
          id={`${id}-note`}
          rows={2}
          ref={field}
          maxlength={MAX_NOTE_LENGTH}
          value={note}
          onInput={(event) => setNote(event.currentTarget.value)}
        ></textarea>
        {failure && (
          <p class="failure" role="alert">
            {failure.message}
          </p>
        )}
        {conflictNotice}
        <div class="buttons">
          <button class="primary" type="button" disabled={busy || isClosed} onClick={save}>
            {busy ? "Working…" : "Save"}
          </button>
          <button type="button" disabled={busy} onClick={() => setLooking(false)}>
            Back to the editor
          </button>
          <button type="button" disabled={busy} onClick={close}>
            Cancel
          </button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog key="writing" title="Edit the payload" close={close} wide>
      <form onSubmit={look}>
        <p>
          The task <b>{toLabel(payload.task_type)}</b> uses this payload in its next attempt. Saving does not start an
          attempt.
          {payload.edited && " The payload was edited before."}
        </p>
        <label for={id}>Payload (JSON)</label>
        <textarea
          id={id}
          class="code"
          ref={field}
          rows={Math.min(24, Math.max(8, before.split("\n").length + 1))}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          value={text}
          aria-invalid={Boolean(problem)}
          aria-describedby={problem ? `${id}-wrong` : undefined}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setFailure(null);
          }}
        ></textarea>
        {problem && (
          <p id={`${id}-wrong`} class="failure" role={failure ? "alert" : "status"}>
            {at !== null && (
              <>
                <button type="button" class="link" onClick={() => show(at)}>
                  Line {lineAt(text, at)}
                </button>
                :{" "}
              </>
            )}
            {problem.message}
          </p>
        )}
        <div class="buttons">
          <button class="primary" type="submit" disabled={Boolean(wrong) || same}>
            Review the change
          </button>
          {payload.edited && (
            <button type="button" onClick={() => setText(pretty(payload.original))}>
              Reset to original
            </button>
          )}
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const PREFIXES: Record<string, string> = { "-": "removed: ", "+": "added: " };

function Differences({ before, after }: { before: string; after: string }) {
  const lines = withContext(diff(before, after));
  return (
    <pre class="diff" tabindex={0} role="region" aria-label="Changes">
      {lines.map((one) =>
        one === null ? (
          <span class="gap">⋯{"\n"}</span>
        ) : (
          <span class={one[0] === "+" ? "added" : one[0] === "-" ? "removed" : undefined}>
            {PREFIXES[one[0]] && <span class="visually-hidden">{PREFIXES[one[0]]}</span>}
            {one[0]} {one[1]}
            {"\n"}
          </span>
        ),
      )}
    </pre>
  );
}
