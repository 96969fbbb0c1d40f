// Uploads of files dropped anywhere on the page or chosen with a button, with each file's progress.

import type { TargetedEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Schemas, send } from "../api";
import { hasRole } from "../roles";
import { navigate } from "../router";
import { Status } from "../ui/components";
import { formatNumber } from "../ui/format";

type Upload = {
  id: number;
  file: File;
  tenant: string;
  state: keyof typeof STATES;
  sent: number;
  message: string;
};

const MAX_CONCURRENT = 3;
const MAX_ATTEMPTS = 6;
const WAIT_SECONDS = 2;
const MAX_SHOWN = 50;
const BUSY_STATUSES = [0, 429, 500, 502, 503, 504];

// All uploads since the page was loaded, from any view. `sent`: uploaded fraction, from 0 to 1.
const uploads: Upload[] = [];
const listeners = new Set<(update: (round: number) => number) => void>();
let running = 0;
let ids = 0;

function notify() {
  for (const listener of listeners) {
    listener((round) => round + 1);
  }
}

function update(upload: Upload, more: Partial<Upload>) {
  Object.assign(upload, more);
  notify();
}

export function uploadFiles(files: Iterable<File>, tenant: string) {
  for (const file of files) {
    uploads.unshift({ id: ++ids, file, tenant, state: "waiting", sent: 0, message: "" });
  }
  notify();
  startNext();
}

// Starts waiting uploads in order, with limited concurrency.
function startNext() {
  const next = uploads.findLast((upload) => upload.state === "waiting");
  if (!next || running >= MAX_CONCURRENT) {
    return;
  }
  running += 1;
  update(next, { state: "sending" });
  uploadWithRetries(next)
    .then(() => update(next, { state: "stored", message: "The file is being processed." }))
    .catch((error) => update(next, { state: "failed", message: error.message }))
    .finally(() => {
      running -= 1;
      startNext();
    });
  startNext();
}

class BusyError extends Error {}

async function uploadWithRetries(upload: Upload) {
  if (upload.file.size === 0) {
    throw new Error("The file is empty or is a folder.");
  }
  for (let attempt = 1; ; attempt++) {
    try {
      const { data: form } = await send<Schemas["UploadForm"]>("POST", "uploads", {
        tenant: upload.tenant,
        file_name: upload.file.name,
        size: upload.file.size,
      });
      await post(form, upload);
      return;
    } catch (error) {
      const isRetryable =
        error instanceof BusyError || (error instanceof ApiError && BUSY_STATUSES.includes(error.status));
      if (!isRetryable || attempt === MAX_ATTEMPTS) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, attempt * WAIT_SECONDS * 1000));
    }
  }
}

// Posts S3's form with XMLHttpRequest, which reports progress.
function post(form: Schemas["UploadForm"], upload: Upload) {
  const data = new FormData();
  for (const [name, value] of Object.entries(form.fields)) {
    data.append(name, value);
  }
  data.append("file", upload.file);
  return new Promise<void>((done, failed) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) =>
      event.lengthComputable && update(upload, { sent: event.loaded / event.total });
    request.onerror = () => failed(new BusyError("File storage cannot be reached. Check your network connection."));
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) {
        done();
      } else if (BUSY_STATUSES.includes(request.status)) {
        failed(new BusyError("File storage is busy. Retry in a few seconds."));
      } else {
        failed(new Error(`File storage rejected the file (HTTP ${request.status}).`));
      }
    };
    request.open("POST", form.url);
    request.send(data);
  });
}

function useUploads() {
  const [, setRound] = useState(0);
  useEffect(() => {
    listeners.add(setRound);
    return () => listeners.delete(setRound);
  }, []);
  return uploads;
}

// Accepts dropped files anywhere on the page. Uploads stay visible in every view.
export function DropZone({ tenant }: { tenant: string | null }) {
  const [isOver, setIsOver] = useState(false);
  const takes = tenant !== null && hasRole("operator");
  const latest = useRef(tenant);
  latest.current = tenant;
  useEffect(() => {
    if (!takes) {
      return undefined;
    }
    let depth = 0; // of nested elements: a child is entered before its parent is left
    const hasFiles = (event: DragEvent) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const over = (event: DragEvent) => hasFiles(event) && event.preventDefault();
    const enter = (event: DragEvent) => {
      if (hasFiles(event)) {
        depth += 1;
        setIsOver(true);
      }
    };
    const leave = (event: DragEvent) => {
      if (hasFiles(event)) {
        depth = Math.max(0, depth - 1);
        setIsOver(depth > 0);
      }
    };
    const drop = (event: DragEvent) => {
      if (hasFiles(event) && event.dataTransfer && latest.current !== null) {
        event.preventDefault();
        depth = 0;
        setIsOver(false);
        uploadFiles(event.dataTransfer.files, latest.current);
      }
    };
    const table = { dragover: over, dragenter: enter, dragleave: leave, drop };
    for (const [name, listener] of Object.entries(table)) {
      addEventListener(name, listener as EventListener);
    }
    return () => {
      for (const [name, listener] of Object.entries(table)) {
        removeEventListener(name, listener as EventListener);
      }
    };
  }, [takes]);
  return (
    <>
      {isOver && (
        <div class="drop-zone" aria-hidden="true">
          <p>
            Drop documents for <b>{tenant}</b> anywhere
          </p>
        </div>
      )}
      <UploadList />
    </>
  );
}

// Button that uploads files, for keyboards and small screens.
export function AddDocuments({ tenant }: { tenant: string | null }) {
  const input = useRef<HTMLInputElement>(null);
  if (tenant === null || !hasRole("operator")) {
    return null;
  }
  const choose = (event: TargetedEvent<HTMLInputElement>) => {
    uploadFiles(event.currentTarget.files ?? [], tenant);
    event.currentTarget.value = "";
  };
  return (
    <span class="add-documents">
      <button type="button" class="primary" onClick={() => input.current?.click()}>
        Add documents…
      </button>
      {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: the button opens it, and Tab skips it. */}
      <input
        ref={input}
        type="file"
        multiple
        class="visually-hidden"
        tabindex={-1}
        aria-hidden="true"
        onChange={choose}
      />
    </span>
  );
}

const STATES = {
  waiting: <Status status="pending" label="Waiting" />,
  sending: <Status status="in-progress" label="Uploading" />,
  stored: <Status status="succeeded" label="Uploaded" />,
  failed: <Status status="failed" />,
};

function UploadList() {
  const all = useUploads();
  const [isShut, setIsShut] = useState(false);
  const underWay = all.filter((one) => one.state === "waiting" || one.state === "sending").length;
  const failed = all.filter((one) => one.state === "failed").length;
  useEffect(() => setIsShut(false), [all.length]);
  const stored = all.length - failed;
  const failures = failed ? `, ${formatNumber(failed)} failed` : "";
  const sentence = underWay
    ? `${formatNumber(all.length - underWay)} of ${formatNumber(all.length)} files uploaded`
    : `${formatNumber(stored)} ${stored === 1 ? "file" : "files"} uploaded${failures}`;
  const clear = () => {
    uploads.splice(0, uploads.length, ...uploads.filter((one) => one.state === "waiting" || one.state === "sending"));
    notify();
  };
  if (!all.length) {
    return <div role="status" class="visually-hidden"></div>;
  }
  return (
    <aside class="uploads" aria-label="Uploads">
      <div class="uploads-header">
        <p role="status">{sentence}</p>
        <button type="button" class="small" aria-expanded={!isShut} onClick={() => setIsShut(!isShut)}>
          {isShut ? "Show" : "Hide"}
        </button>
        {!underWay && (
          <button type="button" class="small" onClick={clear}>
            Clear
          </button>
        )}
      </div>
      {!isShut && (
        <>
          <ul>
            {all.slice(0, MAX_SHOWN).map((one) => (
              <UploadRow key={one.id} upload={one} />
            ))}
          </ul>
          {all.length > MAX_SHOWN && <p class="muted">{formatNumber(all.length - MAX_SHOWN)} more are not shown.</p>}
        </>
      )}
    </aside>
  );
}

function UploadRow({ upload }: { upload: Upload }) {
  const { file, tenant, state, sent, message } = upload;
  const retry = () => {
    update(upload, { state: "waiting", sent: 0, message: "" });
    startNext();
  };
  return (
    <li class={state}>
      <span class="file">{file.name}</span>
      <span class="upload-status">
        {STATES[state]}{" "}
        {state === "sending" && <progress max="1" value={sent} aria-label={`Upload of ${file.name}`}></progress>}
        {state === "stored" && <a href={navigate.href("documents", { tenant, search: file.name })}>Show document</a>}
        {state === "failed" && file.size > 0 && (
          <button type="button" class="small" onClick={retry}>
            Retry
          </button>
        )}
      </span>
      {message && <span class={state === "failed" ? "failure" : "muted"}>{message}</span>}
    </li>
  );
}
