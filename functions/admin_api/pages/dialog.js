// Dialogs: native ones, which keep the focus inside and close by Escape. The focus goes back to where it was.

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";

const LONGEST_NOTE = 2000;

// `close` is called to remove it. While `busy`, it stays.
export function Dialog({ title, close, busy = false, wide = false, children }) {
  const dialog = useRef(null);
  const id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    const shown = dialog.current;
    shown.showModal();
    return () => {
      shown.close(); // behind an open one nothing takes the focus, and the one that takes its place could not give it back
      if (before?.isConnected) {
        before.focus();
      }
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault(); // the parent removes it
    if (!busy) {
      close();
    }
  };
  return html`<dialog ref=${dialog} class=${wide ? "wide" : undefined} aria-labelledby=${id} onCancel=${cancel}>
    <h2 id=${id}>${title}</h2>
    ${children}
  </dialog>`;
}

// Asks for a note, and does something with it. `act(note)` raises what went wrong; then the note stays.
// `needed`: without a note it is not done. `blocked`: a sentence that says why it cannot be done (empty: not yet).
export function NoteDialog({ title, verb, label = "Note", needed = true, blocked = null, act, close, children }) {
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const field = useRef(null);
  const id = useId();
  useLayoutEffect(() => field.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    if (needed && !note.trim()) {
      setFailure({ message: "Write a note that explains the reason." });
      field.current.focus();
      return;
    }
    setBusy(true);
    setFailure(null);
    try {
      await act(note.trim().replace(/\s*\n\s*/g, " "));
    } catch (error) {
      setFailure(error);
      setBusy(false);
      field.current?.focus();
    }
  };
  return html`<${Dialog} title=${title} close=${close} busy=${busy}>
    <form onSubmit=${submit}>
      ${children}
      <label for=${id}>${label}${needed ? "" : html` <span class="quiet">(may stay empty)</span>`}</label>
      <textarea id=${id} ref=${field} rows="3" maxlength=${LONGEST_NOTE} value=${note} aria-required=${needed}
        aria-describedby=${failure ? `${id}-failure` : undefined} onInput=${(event) => setNote(event.target.value)}
        onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && submit(event)}></textarea>
      ${failure && html`<p id=${`${id}-failure`} class="failure" role="alert">${failure.message}</p>`}
      ${blocked && html`<p class="failure" role="alert">${blocked}</p>`}
      <div class="buttons">
        <button class="main" type="submit" disabled=${busy || blocked !== null}>${busy ? "Wait…" : verb}</button>
        <button type="button" disabled=${busy} onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}
