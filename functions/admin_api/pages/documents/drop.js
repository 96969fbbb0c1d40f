// Uploads: files dropped anywhere on the page, or chosen with a button, with the progress of each.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { change } from "../api.js";
import { go } from "../place.js";
import { may } from "../roles.js";
import { number } from "../times.js";

const AT_ONCE = 3;
const TRIES = 6; // while the API or S3 is busy
const WAIT_SECONDS = 2;
const SHOWN = 50;
const NO_ROOM = [0, 429, 500, 502, 503, 504];

// Uploads since the page was loaded, in any view: { id, file, tenant, state, sent, told }.
const uploads = [];
const heard = new Set();
let under = 0;
let ids = 0;

function tell() {
  heard.forEach((hear) => hear((round) => round + 1));
}

function update(upload, more) {
  Object.assign(upload, more);
  tell();
}

export function handIn(files, tenant) {
  for (const file of files) {
    uploads.unshift({ id: ++ids, file, tenant, state: "waiting", sent: 0, told: "" });
  }
  tell();
  work();
}

// Limited concurrency, in order of submission.
function work() {
  const next = uploads.findLast((upload) => upload.state === "waiting");
  if (!next || under >= AT_ONCE) {
    return;
  }
  under += 1;
  update(next, { state: "sending" });
  send(next)
    .then(() => update(next, { state: "stored", told: "It is being read." }))
    .catch((error) => update(next, { state: "failed", told: error.message }))
    .finally(() => {
      under -= 1;
      work();
    });
  work();
}

class NoRoomError extends Error {}

async function send(upload) {
  if (upload.file.size === 0) {
    throw new Error("It is empty, or a folder.");
  }
  for (let tries = 1; ; tries++) {
    try {
      const { data: form } = await change("POST", "uploads", {
        tenant: upload.tenant, file_name: upload.file.name, size: upload.file.size,
      });
      await post(form, upload);
      return;
    } catch (error) {
      const again = error instanceof NoRoomError || NO_ROOM.includes(error.status);
      if (!again || tries === TRIES) {
        throw error;
      }
      await new Promise((goOn) => setTimeout(goOn, tries * WAIT_SECONDS * 1000));
    }
  }
}

// Posts S3's form with XMLHttpRequest, which reports progress.
function post(form, upload) {
  const data = new FormData();
  for (const [name, value] of Object.entries(form.fields)) {
    data.append(name, value);
  }
  data.append("file", upload.file);
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) => event.lengthComputable && update(upload, { sent: event.loaded / event.total });
    request.onerror = () => failed(new NoRoomError("The store of files cannot be reached. Is there a network?"));
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) {
        done();
      } else if (NO_ROOM.includes(request.status)) {
        failed(new NoRoomError("File storage is busy."));
      } else {
        failed(new Error(`The store of files refused it (${request.status}).`));
      }
    };
    request.open("POST", form.url);
    request.send(data);
  });
}

function useUploads() {
  const [, setRound] = useState(0);
  useEffect(() => {
    heard.add(setRound);
    return () => heard.delete(setRound);
  }, []);
  return uploads;
}

// Dropped files are caught anywhere on the page; uploads stay visible in every view.
export function DropZone({ tenant }) {
  const [isOver, setIsOver] = useState(false);
  const takes = tenant !== null && may("operator");
  const latest = useRef(tenant);
  latest.current = tenant;
  useEffect(() => {
    if (!takes) {
      return undefined;
    }
    let depth = 0; // entering a child comes before leaving its parent
    const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const over = (event) => hasFiles(event) && event.preventDefault();
    const enter = (event) => hasFiles(event) && ((depth += 1), setIsOver(true));
    const leave = (event) => hasFiles(event) && ((depth = Math.max(0, depth - 1)), setIsOver(depth > 0));
    const drop = (event) => {
      if (hasFiles(event)) {
        event.preventDefault();
        depth = 0;
        setIsOver(false);
        handIn(event.dataTransfer.files, latest.current);
      }
    };
    const table = { dragover: over, dragenter: enter, dragleave: leave, drop };
    Object.entries(table).forEach(([name, hear]) => addEventListener(name, hear));
    return () => Object.entries(table).forEach(([name, hear]) => removeEventListener(name, hear));
  }, [takes]);
  return html`
    ${isOver && html`<div class="drop-here" aria-hidden="true"><p>Drop documents for <b>${tenant}</b> anywhere</p></div>`}
    <${HandedIn} />
  `;
}

// The same by a button, for keyboards and small screens.
export function AddDocuments({ tenant }) {
  const input = useRef(null);
  if (tenant === null || !may("operator")) {
    return null;
  }
  const choose = (event) => {
    handIn(event.target.files, tenant);
    event.target.value = "";
  };
  return html`<span class="add">
    <button type="button" class="main" onClick=${() => input.current.click()}>Add documents…</button>
    <input ref=${input} type="file" multiple class="unseen" tabindex="-1" aria-hidden="true" onChange=${choose} />
  </span>`;
}

const WORDS = { waiting: "Waiting", sending: "Sending", stored: "Handed in", failed: "Not handed in" };

function HandedIn() {
  const all = useUploads();
  const [isShut, setIsShut] = useState(false);
  const underWay = all.filter((one) => one.state === "waiting" || one.state === "sending").length;
  const failed = all.filter((one) => one.state === "failed").length;
  useEffect(() => setIsShut(false), [all.length]);
  const sentence = underWay
    ? `${number(all.length - underWay)} of ${number(all.length)} files handed in`
    : `${number(all.length - failed)} ${all.length - failed === 1 ? "file" : "files"} handed in${failed ? `, ${number(failed)} not` : ""}`;
  const clear = () => {
    uploads.splice(0, uploads.length, ...uploads.filter((one) => one.state === "waiting" || one.state === "sending"));
    tell();
  };
  if (!all.length) {
    return html`<div role="status" class="unseen"></div>`;
  }
  return html`<aside class="handed-in" aria-label="Documents handed in">
    <div class="head">
      <p role="status">${sentence}</p>
      <button type="button" class="small" aria-expanded=${!isShut} onClick=${() => setIsShut(!isShut)}>${isShut ? "Show" : "Hide"}</button>
      ${!underWay && html`<button type="button" class="small" onClick=${clear}>Clear</button>`}
    </div>
    ${!isShut &&
    html`<ul>${all.slice(0, SHOWN).map((one) => html`<${One} key=${one.id} upload=${one} />`)}</ul>
      ${all.length > SHOWN && html`<p class="quiet">${number(all.length - SHOWN)} more are not shown.</p>`}`}
  </aside>`;
}

function One({ upload }) {
  const { file, tenant, state, sent, told } = upload;
  const again = () => {
    update(upload, { state: "waiting", sent: 0, told: "" });
    work();
  };
  return html`<li class=${state}>
    <span class="file">${file.name}</span>
    <span class="what">${WORDS[state]} ${state === "sending" && html`<progress max="1" value=${sent} aria-label=${`${file.name}: sent`}></progress>`}
      ${state === "stored" && html`<a href=${go.href("documents", { tenant, text: file.name })}>Show document</a>`}
      ${state === "failed" && html`<button type="button" class="small" onClick=${again}>Try again</button>`}</span>
    ${told && html`<span class=${state === "failed" ? "failure" : "quiet"}>${told}</span>`}
  </li>`;
}
