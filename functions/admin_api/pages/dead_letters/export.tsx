// Export of dead letters. A small export is downloaded immediately. A large one runs as an operation and is listed for
// 7 days.

import { useState } from "preact/hooks";
import { get, getFile, POLL_FAST_SECONDS, type Schemas, useQuery } from "../api";
import { currentSession } from "../current_session";
import { hasRole } from "../roles";
import { Status } from "../ui/components";
import { Dialog } from "../ui/dialog";
import { formatCount, startOfDay, Time } from "../ui/format";
import { UserName } from "../ui/user_name";
import type { ListFilter } from "./dead_letters";

type Operation = Schemas["OperationProgress"];
type Export = Operation & { file: Schemas["OperationFile"] };

const FORMATS = { csv: "CSV, for spreadsheets", json: "JSON Lines, one dead letter per line" };
const STATES: Record<string, string> = { running: "in progress", done: "ready" };

function download(href: string, name = "") {
  Object.assign(document.createElement("a"), { href, download: name }).click();
}

function save(file: File) {
  const href = URL.createObjectURL(file);
  download(href, file.name);
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

export function ExportDialog({ filter, close }: { filter: ListFilter; close: () => void }) {
  const [format, setFormat] = useState("csv");
  const [busy, setBusy] = useState(false);
  const [many, setMany] = useState(false); // the export runs as an operation
  const [failure, setFailure] = useState<Error | null>(null);
  const large = useQuery<Schemas["OperationPage"]>(["admin/operations", { tenant: filter.tenant, action: "export" }], {
    every: POLL_FAST_SECONDS,
  });
  const downloadable = large.data?.operations.filter(isDownloadable) ?? [];
  const submit = async (event: Event) => {
    event.preventDefault();
    const { tenant, status, task_type, search, from, to, fingerprint } = filter;
    const query = {
      tenant,
      status,
      task_type,
      search,
      fingerprint,
      from_date: startOfDay(from),
      to_date: startOfDay(to, 1),
    };
    setBusy(true);
    setFailure(null);
    try {
      const file = await getFile("admin/dlq/export", { format, ...query });
      if (file) {
        save(file);
        close();
        return;
      }
      setMany(true);
      large.reload();
    } catch (error) {
      setFailure(error as Error);
    }
    setBusy(false);
  };
  return (
    <Dialog title="Export dead letters" close={close}>
      <form onSubmit={submit}>
        <p>The file contains all dead letters that match the filter. Values that your role may not see are hidden.</p>
        <fieldset>
          <legend>Format</legend>
          {Object.entries(FORMATS).map(([name, title]) => (
            <label class="choice">
              <input type="radio" name="format" checked={format === name} onChange={() => setFormat(name)} /> {title}
            </label>
          ))}
        </fieldset>
        <div role="status">
          {many && (
            <p>
              The file is large, so it is created in the background, starting within a minute. You can close this
              dialog. The file is listed below for 7 days.
            </p>
          )}
        </div>
        {failure && (
          <p class="failure" role="alert">
            {failure.message}
          </p>
        )}
        <div class="buttons">
          <button class="primary" type="submit" disabled={busy}>
            {busy ? "Working…" : "Export"}
          </button>
          <button type="button" onClick={close}>
            {many ? "Close" : "Cancel"}
          </button>
        </div>
      </form>
      {large.error && (
        <p class="failure" role="alert">
          {large.error.message}
        </p>
      )}
      {downloadable.length > 0 && <LargeExports exports={downloadable} />}
    </Dialog>
  );
}

const LIST = "large-exports";

// Returns whether the file has not expired and this user may download it.
function isDownloadable(operation: Operation): operation is Export {
  const { file, requested_by: by } = operation;
  if (file === null) {
    return false;
  }
  const isOwn = file.redacted && by === currentSession().claims.sub;
  return new Date(file.expires_at) > new Date() && (isOwn || hasRole("admin"));
}

function LargeExports({ exports }: { exports: Export[] }) {
  return (
    <>
      <h3 id={LIST}>Large exports from the last 7 days</h3>
      <ul class="exports" aria-labelledby={LIST}>
        {exports.map((one) => (
          <Row key={one.operation_id} operation={one} />
        ))}
      </ul>
    </>
  );
}

// The link is requested only when the user clicks, because the audit trail records each request.
function Row({ operation }: { operation: Export }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Error | null>(null);
  const fetched = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { url } = await get<Schemas["ExportLink"]>(`admin/operations/${operation.operation_id}/file`);
      download(url);
    } catch (error) {
      setFailure(error as Error);
    }
    setBusy(false);
  };
  const format = operation.file.format.toUpperCase();
  return (
    <li>
      <p class="export-summary">
        <Status status={STATES[operation.state] ?? operation.state} />{" "}
        <span>
          {format}, {formatCount(operation.succeeded, "dead letter")}
          {operation.ended_at === null && " so far"}
          {operation.file.redacted && ", without secrets"}
        </span>
        <span class="muted">
          <Time at={operation.requested_at} />, by <UserName value={operation.requested_by} />
        </span>
        {failure && (
          <span class="failure" role="alert">
            {failure.message}
          </span>
        )}
      </p>
      {operation.state === "done" && (
        <button type="button" class="small" disabled={busy} onClick={fetched}>
          {busy ? "Working…" : "Download"}
        </button>
      )}
    </li>
  );
}
