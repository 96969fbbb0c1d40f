// Dead letters as a file: the response if there are few, else an operation, listed for a week.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, fetchFile, LIVE_SECONDS, useAnswer } from "../api.js";
import { Dialog } from "../dialog.js";
import { Status, Who } from "../parts.js";
import { may } from "../roles.js";
import { number, startOfDay, Time } from "../times.js";

const FORMATS = { csv: "CSV, for spreadsheets", json: "JSON, one letter a line" };
const STATES = { running: "being written", done: "ready" };

function download(href, name = "") {
  Object.assign(document.createElement("a"), { href, download: name }).click();
}

function save(file) {
  const href = URL.createObjectURL(file);
  download(href, file.name);
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

// Of what the list looks for.
export function ExportDialog({ wanted, close }) {
  const [format, setFormat] = useState("csv");
  const [busy, setBusy] = useState(false);
  const [many, setMany] = useState(false); // so that it runs as an operation
  const [failure, setFailure] = useState(null);
  const large = useAnswer(["admin/operations", { tenant: wanted.tenant, action: "export" }], { every: LIVE_SECONDS });
  const kept = large.data?.operations.filter(isKept) ?? [];
  const submit = async (event) => {
    event.preventDefault();
    const { tenant, status, task_type, text, from, to, fingerprint } = wanted;
    const filter = { tenant, status, task_type, text, fingerprint, from_date: startOfDay(from), to_date: startOfDay(to, 1) };
    setBusy(true);
    setFailure(null);
    try {
      const { file } = await fetchFile("admin/dlq/export", { format, ...filter });
      if (file) {
        save(file);
        close();
        return;
      }
      setMany(true);
      large.again();
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  return html`<${Dialog} title="Export dead letters" close=${close}>
    <form onSubmit=${submit}>
      <p>All that the filter finds, with what your role may see of them.</p>
      <fieldset>
        <legend>As</legend>
        ${Object.entries(FORMATS).map(
          ([name, title]) => html`<label class="choice"><input type="radio" name="format" checked=${format === name}
            onChange=${() => setFormat(name)} /> ${title}</label>`,
        )}
      </fieldset>
      <div role="status">
        ${many && html`<p>These are many, so the file is written first, which begins within a minute. You may close this: it stays below for a week.</p>`}
      </div>
      ${failure && html`<p class="failure" role="alert">${failure.message}</p>`}
      <div class="buttons">
        <button class="main" type="submit" disabled=${busy}>${busy ? "Wait…" : "Export"}</button>
        <button type="button" onClick=${close}>${many ? "Close" : "Cancel"}</button>
      </div>
    </form>
    ${large.error && html`<p class="failure" role="alert">${large.error.message}</p>`}
    ${kept.length > 0 && html`<${Large} exports=${kept} />`}
  <//>`;
}

const LIST = "large-exports";

// Whether the file exists and this person may download it.
function isKept({ file, requested_by: by }) {
  const isOwn = file.redacted && by === ask.session.claims.sub;
  return new Date(file.expires_at) > new Date() && (isOwn || may("admin"));
}

function Large({ exports }) {
  return html`<h3 id=${LIST}>Large exports of the last week</h3>
    <ul class="exports" aria-labelledby=${LIST}>
      ${exports.map((one) => html`<${Row} key=${one.operation_id} one=${one} />`)}
    </ul>`;
}

// The link is requested on a click, because the audit trail records it.
function Row({ one }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const fetched = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { url } = await ask(`admin/operations/${one.operation_id}/file`);
      download(url);
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  const format = one.file.format.toUpperCase();
  return html`<li>
    <p class="which"><${Status} status=${STATES[one.state] ?? one.state} /> <span>${format}, ${number(one.done)}
      ${one.done === 1 ? " letter" : " letters"}${one.ended_at === null && " so far"}${one.file.redacted && ", without secrets"}</span>
      <span class="quiet"><${Time} at=${one.requested_at} />, by <${Who} value=${one.requested_by} /></span>
      ${failure && html`<span class="failure" role="alert">${failure.message}</span>`}</p>
    ${one.state === "done" &&
    html`<button type="button" class="small" disabled=${busy} onClick=${fetched}>${busy ? "Wait…" : "Download"}</button>`}
  </li>`;
}
