// One dead letter: what it died of, what was asked for, and what happened to it.

import { html } from "htm/preact";
import { useAnswer } from "./api.js";
import { go } from "./place.js";
import { FactList, Failure, Id, Json, Notice, Status, useTitle, Waiting } from "./parts.js";
import { number, Time } from "./times.js";

const ANEW_SECONDS = 5;
const REASONS = {
  max_retries_exceeded: "every try failed",
  non_retriable_error: "no further try could help",
};

export function Letter({ id }) {
  const path = `admin/dlq/${encodeURIComponent(id)}`;
  const { data: letter, error, again } = useAnswer([path, {}], { every: ANEW_SECONDS });
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
  return html`${back}
    <h1><${Status} status=${letter.status} /> ${letter.metadata.last_error.type}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    <p class="error">${letter.metadata.last_error.message || "The error says nothing more."}</p>
    <${Facts} letter=${letter} />
    <${Payload} letter=${letter} />
    <${Deaths} lineage=${letter.lineage} />
    <${Timeline} path=${`${path}/timeline`} />`;
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
    ["Work", letter.work_id ? html`<${Id} value=${letter.work_id} />` : "its message named none"],
    ["Alike", html`<a href=${group}>Letters that died of the same</a>`],
  ];
  if (letter.resolved_at) {
    facts.push(["Settled", html`<${Time} at=${letter.resolved_at} both=${true} /> by ${letter.resolved_by}`]);
  }
  if (resolution?.notes) {
    facts.push(["Note", resolution.notes]);
  }
  return html`<${FactList} facts=${facts} />`;
}

function Payload({ letter }) {
  const hidden = letter.redacted.length;
  return html`<section aria-labelledby="payload">
    <h2 id="payload">What was asked for</h2>
    ${hidden > 0 &&
    html`<p class="quiet">${hidden === 1 ? "One value is" : `${number(hidden)} values are`} hidden from your role.</p>`}
    <${Json} value=${letter.payload} label="Payload as JSON" />
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
            <td data-label="Then"><${Status} status=${death.status} /></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

function Timeline({ path }) {
  const { data, error, again } = useAnswer([path, {}], { every: ANEW_SECONDS });
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
    <p><b>${which}: ${what}</b> <span class="quiet"><${Time} at=${event.at} />, ${event.who}${
      seconds !== null && `, after ${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
    }</span></p>
    ${event.error?.message && html`<p class="error">${event.error.type && `${event.error.type}: `}${event.error.message}</p>`}
    ${event.next_attempt_at && html`<p class="quiet">Next try at <${Time} at=${event.next_attempt_at} /></p>`}
  </li>`;
}
