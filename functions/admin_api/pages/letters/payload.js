// The payload, which authorized people can edit. An edit is used by the next attempt of its task.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { exactly, useAnswer } from "../api.js";
import { pathOf, useSeen } from "./changes.js";
import { around, diff } from "./diff.js";
import { Dialog } from "../dialog.js";
import { lineAt, placeOfField, wrongWith } from "./jsontext.js";
import { useKeys } from "../keys.js";
import { Failure, Json, Waiting } from "../parts.js";
import { mayEditPayloads } from "../roles.js";
import { number } from "../times.js";

const TASKS = "tasks";
const LONGEST_NOTE = 2000;

export function Payload({ letter, done }) {
  const [open, setOpen] = useState(false);
  const seen = letter.worker === TASKS && mayEditPayloads();
  // For who may edit it, what the task was given; else there is the message alone.
  const question = seen ? [`${pathOf(letter)}/payload`, {}] : null;
  const { data: task } = useAnswer(question, { exact: true, version: letter.version });
  const editable = task && letter.status === "pending";
  const hidden = letter.redacted.filter((pointer) => pointer.startsWith("/payload")).length;
  useKeys(editable ? [{ key: "p", what: "Edit the payload", act: () => setOpen(true) }] : []);
  return html`<section aria-labelledby="payload">
    <div class="heading">
      <h2 id="payload">Payload</h2>
      ${editable && html`<button type="button" onClick=${() => setOpen(true)}>Edit</button>`}
    </div>
    ${hidden > 0 &&
    html`<p class="quiet">${hidden === 1 ? "One value is" : `${number(hidden)} values are`} hidden from your role.</p>`}
    ${task
      ? html`<${Json} value=${task.original} label="Payload as JSON" />
          ${task.edited &&
          html`<h3>Edited payload for the next attempt</h3>
            <${Differences} before=${pretty(task.original)} after=${pretty(task.edited)} />`}
          <details><summary>Its message</summary><${Json} value=${letter.payload} label="Message as JSON" /></details>`
      : html`<${Json} value=${letter.payload} label="Payload as JSON" />`}
    ${open && html`<${Editing} letter=${letter} close=${() => setOpen(false)} done=${(said) => (setOpen(false), done(said))} />`}
  </section>`;
}

const pretty = (value) => JSON.stringify(value, null, 2);

function Editing({ letter, close, done }) {
  const { data, error, again } = useAnswer([`${pathOf(letter)}/payload`, {}], { exact: true });
  if (!data) {
    return html`<${Dialog} title="Edit the payload" close=${close}>
      ${error?.status === 409
        ? html`<p>${error.message}</p>`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the payload" />`}
      <div class="buttons"><button type="button" onClick=${close}>Close</button></div>
    <//>`;
  }
  return html`<${Editor} letter=${letter} payload=${data} close=${close} done=${done} />`;
}

function Editor({ letter, payload, close, done }) {
  const before = pretty(payload.edited ?? payload.original);
  const { act, meanwhile, over } = useSeen({ ...letter, version: payload.version });
  const [text, setText] = useState(before);
  const [note, setNote] = useState("");
  const [looking, setLooking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const wrong = wrongWith(text);
  const field = useRef(null);
  const id = useId();
  useEffect(() => field.current?.focus(), [looking]);
  const show = (at) => {
    field.current.focus();
    field.current.setSelectionRange(at, at + 1);
  };
  const look = (event) => {
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
      const said = note.trim().replace(/\s*\n\s*/g, " ");
      // As it was written: JavaScript would make 1 of 1.0.
      await act("PATCH", `${pathOf(letter)}/payload`, `{"payload":${text}${said ? `,"notes":${JSON.stringify(said)}` : ""}}`);
      done("The payload was edited. The next attempt uses it.");
    } catch (error) {
      setBusy(false);
      setFailure({ message: error.message, at: placeOfField(text, error.message) });
      setLooking(error.status !== 422);
    }
  };
  const problem = wrong ?? failure;
  const line = problem && problem.at !== null && problem.at !== undefined ? lineAt(text, problem.at) : null;
  const same = !wrong && pretty(exactly(text)) === before;
  if (looking) {
    return html`<${Dialog} key="looking" title="Is this the change?" close=${close} busy=${busy} wide=${true}>
      <${Differences} before=${before} after=${pretty(exactly(text))} />
      <label class="field" for=${`${id}-note`}>Why? <span class="quiet">(may stay empty)</span></label>
      <textarea id=${`${id}-note`} rows="2" ref=${field} maxlength=${LONGEST_NOTE} value=${note}
        onInput=${(event) => setNote(event.target.value)}></textarea>
      ${failure && html`<p class="failure" role="alert">${failure.message}</p>`}
      ${meanwhile}
      <div class="buttons">
        <button class="main" type="button" disabled=${busy || over} onClick=${save}>${busy ? "Wait…" : "Save"}</button>
        <button type="button" disabled=${busy} onClick=${() => setLooking(false)}>Back to the text</button>
        <button type="button" disabled=${busy} onClick=${close}>Cancel</button>
      </div>
    <//>`;
  }
  return html`<${Dialog} key="writing" title="Edit the payload" close=${close} wide=${true}>
    <form onSubmit=${look}>
      <p>The task <b>${payload.task_type}</b> is tried with this when it is tried again; nothing is sent now.
        ${payload.edited && " It was edited before."}</p>
      <label for=${id}>Payload, as JSON</label>
      <textarea id=${id} class="code" ref=${field} rows=${Math.min(24, Math.max(8, before.split("\n").length + 1))}
        spellcheck=${false} autocomplete="off" autocapitalize="off" value=${text} aria-invalid=${Boolean(problem)}
        aria-describedby=${problem ? `${id}-wrong` : undefined}
        onInput=${(event) => (setText(event.target.value), setFailure(null))}></textarea>
      ${problem &&
      html`<p id=${`${id}-wrong`} class="failure" role=${failure ? "alert" : "status"}>
        ${line && html`<button type="button" class="link" onClick=${() => show(problem.at)}>Line ${line}</button>: `}${problem.message}</p>`}
      <div class="buttons">
        <button class="main" type="submit" disabled=${Boolean(wrong) || same}>Look at the change</button>
        ${payload.edited &&
        html`<button type="button" onClick=${() => setText(pretty(payload.original))}>As it was tried</button>`}
        <button type="button" onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}

const SAYS = { "-": "taken out: ", "+": "put in: " };

function Differences({ before, after }) {
  const lines = around(diff(before, after));
  return html`<pre class="diff" tabindex="0" role="region" aria-label="What changes">${lines.map((one) =>
    one === null
      ? html`<span class="gap">⋯${"\n"}</span>`
      : html`<span class=${one[0] === "+" ? "added" : one[0] === "-" ? "removed" : undefined}
          >${SAYS[one[0]] && html`<span class="unseen">${SAYS[one[0]]}</span>`}${one[0]} ${one[1]}${"\n"}</span>`,
  )}</pre>`;
}
