// One dead letter: its error, its payload, its history and actions.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { LEADING_SECONDS, LIVE_SECONDS, STEADY_SECONDS, useAnswer } from "../api.js";
import { AuditEntries } from "../audit/audit.js";
import { ACTIONS, LetterDialog, mayChange } from "./changes.js";
import { useKeys } from "../keys.js";
import { logCommand, traceCommand } from "./log.js";
import { Payload } from "./payload.js";
import { go } from "../place.js";
import { Done, FactList, Failure, Id, Json, Notice, Status, useTitle, Waiting, Who } from "../parts.js";
import { number, Time } from "../times.js";

const REASONS = {
  max_retries_exceeded: "every try failed",
  non_retriable_error: "no further try could help",
};

export function Letter({ id }) {
  const path = `admin/dlq/${encodeURIComponent(id)}`;
  const { data: letter, error, busy, again } = useAnswer([path, {}], { every: LEADING_SECONDS, exact: true });
  const [said, setSaid] = useState(null);
  useTitle(letter ? `${letter.metadata.last_error.type} · Dead letter` : "Dead letter");
  const back = html`<p><a href=${go.href("dead-letters", { tenant: letter?.tenant })}>All dead letters</a></p>`;
  if (!letter) {
    return html`${back}<h1>Dead letter</h1>
      ${error?.status === 404
        ? html`<${Notice} title="There is no such dead letter"
            >It may have been deleted, or belong to a tenant that you do not see.<//
          >`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the dead letter" />`}`;
  }
  // `status`: the resulting status. After another change, for example a further failure, the message is removed.
  const done = (sentence, status = "pending") => {
    setSaid({ sentence, status });
    again();
  };
  return html`${back}
    <h1><${Status} status=${letter.status} /> ${letter.metadata.last_error.type}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    <p class="error">${letter.metadata.last_error.message || "The error says nothing more."}</p>
    ${said?.status === letter.status && html`<${Done}>${said.sentence}<//>`}
    <${Actions} letter=${letter} busy=${busy} done=${done} />
    <${Facts} letter=${letter} />
    <${Circumstances} error=${letter.metadata.last_error} />
    <${Payload} letter=${letter} done=${done} />
    <${Deaths} lineage=${letter.lineage} />
    <${Timeline} path=${`${path}/timeline`} version=${letter.version} isTried=${letter.status === "retried"} />
    <${Trail} letter=${letter} />`;
}

// A dialog stays open when someone else closes the dead letter, because it contains a note. While the dead letter is loading (`busy`)
// no dialog opens: it would report the user's own edit as someone else's change.
function Actions({ letter, busy, done }) {
  const [action, setAction] = useState(null);
  const offered = mayChange(letter) ? Object.entries(ACTIONS) : [];
  const open = (name) => busy || setAction(name);
  useKeys(offered.map(([name, { key, verb }]) => ({ key, what: verb, act: () => open(name) })));
  return html`${offered.length > 0 &&
    html`<div class="buttons actions">
      ${offered.map(
        ([name, { verb, key }], at) =>
          html`<button type="button" class=${at === 0 ? "main" : undefined} aria-keyshortcuts=${key}
            aria-disabled=${busy} onClick=${() => open(name)}>${verb}</button>`,
      )}
    </div>`}
    ${action &&
    html`<${LetterDialog} key=${action} letter=${letter} action=${action} close=${() => setAction(null)}
      done=${(sentence, status) => (setAction(null), done(sentence, status))} />`}`;
}

function Facts({ letter }) {
  const { resolution } = letter;
  const group = go.href("dead-letters", { tenant: letter.tenant, status: "all", fingerprint: letter.fingerprint });
  const facts = [
    ["Died", html`<${Time} at=${letter.dlq_timestamp} both=${true} />`],
    ["Why", REASONS[letter.dlq_reason] ?? letter.dlq_reason],
    ["Attempts", number(letter.attempts)],
    ["Type", letter.task_type],
    ["Worker", letter.worker],
    ["Tenant", letter.tenant],
    ["Letter", html`<${Id} value=${letter.job_id} />`],
    ["Work item", letter.work_id ? html`<${WorkItem} letter=${letter} />` : "none: the message could not be read"],
    ["Alike", html`<a href=${group}>Letters that died of the same</a>`],
  ];
  if (letter.resolved_at) {
    facts.push(["Settled", html`<${Time} at=${letter.resolved_at} both=${true} /> by <${Who} value=${letter.resolved_by} />`]);
  }
  if (resolution?.notes) {
    facts.push(["Note", resolution.notes]);
  }
  return html`<${FactList} facts=${facts} />`;
}

// Workers whose work items have a page in the console.
const PAGES = {
  ingestion: { path: "documents", name: "Document" },
  matching: { path: "documents", name: "Document" },
  tasks: { path: "tasks", name: "Task" },
};

function WorkItem({ letter }) {
  const page = PAGES[letter.worker];
  const id = html`<${Id} value=${letter.work_id} />`;
  return page
    ? html`<a href=${go.href(`${page.path}/${letter.work_id}`, { tenant: letter.tenant })}>${page.name}</a> ${id}`
    : id;
}

const KNOWN = new Set(["type", "message", "timestamp", "context", "stack", "traceback"]);

// More about the error: its place, and the attempt.
function Circumstances({ error }) {
  const stack = error.stack ?? error.traceback ?? error.context?.stack ?? error.context?.traceback;
  // The stack has its place below, and worker and attempt stand among the facts.
  const { stack: _stack, traceback: _traceback, worker: _worker, attempt: _attempt, ...context } = error.context ?? {};
  const rest = { ...context, ...Object.fromEntries(Object.entries(error).filter(([name]) => !KNOWN.has(name))) };
  const plain = Object.values(rest).every((value) => value === null || typeof value !== "object");
  if (!stack && !Object.keys(rest).length) {
    return null;
  }
  return html`<section aria-labelledby="circumstances">
    <h2 id="circumstances">Around the error</h2>
    ${Object.keys(rest).length > 0 &&
    (plain
      ? html`<${FactList} facts=${Object.entries(rest).map(([name, value]) => [name, html`<code>${String(value)}</code>`])} />`
      : html`<${Json} value=${rest} label="Context of the error as JSON" />`)}
    ${stack && html`<details><summary>Stack</summary><pre tabindex="0" role="region" aria-label="Stack">${stack}</pre></details>`}
  </section>`;
}

function Deaths({ lineage }) {
  if (!lineage.length) {
    return null;
  }
  return html`<section aria-labelledby="deaths">
    <h2 id="deaths">Earlier deaths</h2>
    <table class="rows">
      <thead><tr><th scope="col">Died</th><th scope="col">Error</th><th scope="col">Then</th></tr></thead>
      <tbody>
        ${[...lineage].reverse().map(
          (death) => html`<tr>
            <td data-label="Died"><${Time} at=${death.dlq_timestamp} /></td>
            <td data-label="Error">${death.last_error?.message ?? REASONS[death.dlq_reason] ?? death.dlq_reason}</td>
            <td data-label="Then"><${Status} status=${death.status} /> ${death.resolution?.notes && html`<span class="quiet">${death.resolution.notes}</span>`}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

// Requested again with each version of the dead letter, and for attempts in progress.
function Timeline({ path, version, isTried }) {
  const { data, error, again } = useAnswer([path, {}], { every: isTried ? LIVE_SECONDS : STEADY_SECONDS, version });
  return html`<section aria-labelledby="timeline">
    <h2 id="timeline">What happened</h2>
    ${error && !data
      ? html`<${Failure} error=${error} again=${again} />`
      : !data
        ? html`<${Waiting} what="the history" />`
        : html`<ol class="timeline">${data.events.map((event) => html`<${Happened} event=${event} />`)}</ol>`}
  </section>`;
}

const KINDS = { try: "Try", death: "Death", change: "Change" };

function Happened({ event }) {
  const seconds = event.began_at ? (new Date(event.at) - new Date(event.began_at)) / 1000 : null;
  const which = event.kind === "try" && event.number ? `Try ${event.number}` : KINDS[event.kind];
  const what = REASONS[event.what] ?? event.what;
  return html`<li class=${event.kind}>
    <p><b>${which}: ${what}</b> <span class="quiet"><${Time} at=${event.at} />, <${Who} value=${event.who} />${
      seconds !== null && `, after ${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
    }</span></p>
    ${event.error?.message && html`<p class="error">${event.error.type && `${event.error.type}: `}${event.error.message}</p>`}
    ${event.next_attempt_at && html`<p class="quiet">Next try at <${Time} at=${event.next_attempt_at} /></p>`}
    ${event.log &&
    html`<details><summary>Log</summary>
      ${event.log.url && html`<p><a href=${event.log.url} target="_blank" rel="noreferrer">Log of ${which} in the AWS console</a></p>`}
      <pre tabindex="0" role="region" aria-label=${`Command for the log of ${which}`}>${logCommand(event.log)}</pre></details>`}
    ${event.trace_id &&
    html`<details><summary>Trace</summary>
      ${event.trace_url && html`<p><a href=${event.trace_url} target="_blank" rel="noreferrer">Trace of ${which} in the AWS console</a></p>`}
      <pre tabindex="0" role="region" aria-label=${`Command for the trace of ${which}`}>${traceCommand(event.trace_id)}</pre></details>`}
  </li>`;
}

function Trail({ letter }) {
  const query = { tenant: letter.tenant, target: letter.job_id };
  const { data, error, again } = useAnswer(["admin/dlq/audit", query], { version: letter.version });
  return html`<section aria-labelledby="trail">
    <h2 id="trail">Audit trail</h2>
    ${error && !data
      ? html`<${Failure} error=${error} again=${again} />`
      : !data
        ? html`<${Waiting} what="the audit trail" />`
        : data.entries.length
          ? html`<${AuditEntries} entries=${data.entries} tenant=${letter.tenant} ofOne=${true} />`
          : html`<p class="quiet">No changes.</p>`}
    <p><a href=${go.href("audit", query)}>In the audit view</a></p>
  </section>`;
}
