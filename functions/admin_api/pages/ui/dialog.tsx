// Native dialogs. They trap the focus, close with Escape, and then return the focus to the previous element.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

const MAX_NOTE_LENGTH = 2000;

// `close` removes the dialog. While `busy`, the user cannot close it.
export function Dialog({
  title,
  close,
  busy = false,
  wide = false,
  children,
}: {
  title: string;
  close: () => void;
  busy?: boolean;
  wide?: boolean;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const shown = dialog.current;
    shown?.showModal();
    return () => {
      // Elements behind an open dialog cannot get the focus, so the dialog is closed first.
      shown?.close();
      if (before?.isConnected) {
        before.focus();
      }
    };
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault(); // the parent removes the dialog
    if (!busy) {
      close();
    }
  };
  return (
    <dialog ref={dialog} class={wide ? "wide" : undefined} aria-labelledby={id} onCancel={cancel}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

// Prompts for a note and calls `act(note)`. If `act` fails, the dialog stays open and shows the error.
// `blockedReason`: why the action is unavailable, "" while that is unknown, or null if the action is available.
export function NoteDialog({
  title,
  verb,
  label = "Note",
  isRequired = true,
  blockedReason = null,
  act,
  close,
  children,
}: {
  title: string;
  verb: string;
  label?: string;
  isRequired?: boolean;
  blockedReason?: string | null;
  act: (note: string) => Promise<void>;
  close: () => void;
  children: ComponentChildren;
}) {
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<{ message: string } | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useLayoutEffect(() => field.current?.focus(), []);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isRequired && !note.trim()) {
      setFailure({ message: "Write a note that explains why." });
      field.current?.focus();
      return;
    }
    setBusy(true);
    setFailure(null);
    try {
      await act(note.trim().replace(/\s*\n\s*/g, " "));
    } catch (error) {
      setFailure(error as Error);
      setBusy(false);
      field.current?.focus();
    }
  };
  return (
    <Dialog title={title} close={close} busy={busy}>
      <form onSubmit={submit}>
        {children}
        <label for={id}>
          {label}
          {isRequired ? (
            ""
          ) : (
            <>
              {" "}
              <span class="muted">(optional)</span>
            </>
          )}
        </label>
        <textarea
          id={id}
          ref={field}
          rows={3}
          maxlength={MAX_NOTE_LENGTH}
          value={note}
          aria-required={isRequired}
          aria-describedby={failure ? `${id}-failure` : undefined}
          onInput={(event) => setNote(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && submit(event)}
        ></textarea>
        {failure && (
          <p id={`${id}-failure`} class="failure" role="alert">
            {failure.message}
          </p>
        )}
        {blockedReason && (
          <p class="failure" role="alert">
            {blockedReason}
          </p>
        )}
        <div class="buttons">
          <button class="primary" type="submit" disabled={busy || blockedReason !== null}>
            {busy ? "Working…" : verb}
          </button>
          <button type="button" disabled={busy} onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
