// Letters as a file: at once where there are few; else it is written meanwhile, and stands in a list for a week.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, fetchFile, LIVE_SECONDS, useAnswer } from "../api.js";
import { Dialog } from "../dialog.js";
import { Status, Who } from "../parts.js";
import { number, startOfDay, Time } from "../times.js";

const FORMATS = { csv: "CSV, for spreadsheets", json: "JSON, one letter a line" };
const STATES = { writing: "being written", ready: "ready", failed: "failed" };

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
  const [many, setMany] = useState(false); // so that it is written meanwhile
  const [failure, setFailure] = useState(null);
  const large = useAnswer(["admin/dlq/exports", { tenant: wanted.tenant }], { every: LIVE_SECONDS });
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
    ${large.data?.exports.length > 0 && html`<${Large} page=${large.data} />`}
  <//>`;
}

const LIST = "large-exports";

function Large({ page }) {
  return html`<h3 id=${LIST}>Large exports of the last week</h3>
    <ul class="exports" aria-labelledby=${LIST}>
      ${page.exports.map((one) => html`<${Row} key=${one.export_id} one=${one} />`)}
    </ul>
    ${page.next && html`<p class="quiet">Older ones are listed by <code>counterfoil dlq exports list</code>.</p>`}`;
}

// Its link is asked for when it is wanted, and not before: whoever is given one has taken the letters out.
function Row({ one }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const fetched = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { url } = await ask(`admin/dlq/exports/${one.export_id}`);
      download(url);
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  const format = one.format.toUpperCase();
  return html`<li>
    <p class="which"><${Status} status=${STATES[one.state]} /> <span>${format}, ${number(one.letters)}
      ${one.letters === 1 ? " letter" : " letters"}${one.state === "writing" && " by now"}${one.redacted && ", without secrets"}</span>
      <span class="quiet"><${Time} at=${one.requested_at} />, by <${Who} value=${one.requested_by} /></span>
      ${failure && html`<span class="failure" role="alert">${failure.message}</span>`}</p>
    ${one.state === "ready" &&
    html`<button type="button" class="small" disabled=${busy} onClick=${fetched}>${busy ? "Wait…" : "Download"}</button>`}
  </li>`;
}
