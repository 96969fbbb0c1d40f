// Letters as a file: at once where there are few, else when it is ready.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, fetchFile } from "../api.js";
import { Dialog } from "../dialog.js";
import { number, startOfDay } from "../times.js";

const LOOK_SECONDS = 1;
const FORMATS = { csv: "CSV, for spreadsheets", json: "JSON, one letter a line" };

function save(file) {
  const href = URL.createObjectURL(file);
  const link = Object.assign(document.createElement("a"), { href, download: file.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

// Of what the list looks for.
export function ExportDialog({ wanted, close }) {
  const [format, setFormat] = useState("csv");
  const [busy, setBusy] = useState(false);
  const [stored, setStored] = useState(null); // of a large one
  const [failure, setFailure] = useState(null);
  useEffect(() => {
    if (!stored || stored.url || stored.state === "failed") {
      return undefined;
    }
    const timer = setTimeout(async () => {
      try {
        setStored(await ask(`admin/dlq/exports/${stored.export_id}`));
      } catch (error) {
        setFailure(error);
      }
    }, LOOK_SECONDS * 1000);
    return () => clearTimeout(timer);
  }, [stored]);
  const submit = async (event) => {
    event.preventDefault();
    const { tenant, status, task_type, text, from, to, fingerprint } = wanted;
    const filter = { tenant, status, task_type, text, fingerprint, from_date: startOfDay(from), to_date: startOfDay(to, 1) };
    setBusy(true);
    setFailure(null);
    try {
      const { file, data } = await fetchFile("admin/dlq/export", { format, ...filter });
      if (file) {
        save(file);
        close();
        return;
      }
      setStored(data);
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  return html`<${Dialog} title="Export dead letters" close=${close}>
    <form onSubmit=${submit}>
      <p>All that the filter finds, with what your role may see of them.</p>
      <fieldset disabled=${Boolean(stored)}>
        <legend>As</legend>
        ${Object.entries(FORMATS).map(
          ([name, title]) => html`<label class="choice"><input type="radio" name="format" checked=${format === name}
            onChange=${() => setFormat(name)} /> ${title}</label>`,
        )}
      </fieldset>
      <div role="status">
        ${stored && (stored.url
          ? html`<p>It is ready. <a href=${stored.url} download>Download</a></p>`
          : stored.state === "failed"
            ? html`<p class="failure">It failed. Ask for it again.</p>`
            : html`<p>These are many: ${number(stored.letters)} are in the file by now. Keep this open.</p>`)}
      </div>
      ${failure && html`<p class="failure" role="alert">${failure.message}</p>`}
      <div class="buttons">
        ${!stored && html`<button class="main" type="submit" disabled=${busy}>${busy ? "Wait…" : "Export"}</button>`}
        <button type="button" onClick=${close}>${stored ? "Close" : "Cancel"}</button>
      </div>
    </form>
  <//>`;
}
