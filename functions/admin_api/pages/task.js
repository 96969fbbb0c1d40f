// One task: what was asked for, what came of it, and each try.

import { html } from "htm/preact";
import { useAnswer } from "./api.js";
import { FactList, Failure, Id, Json, Notice, Status, useTitle, Waiting } from "./parts.js";
import { go } from "./place.js";
import { number, Time } from "./times.js";

const ANEW_SECONDS = 5;

export function Task({ id }) {
  const { data: task, error, again } = useAnswer([`tasks/${encodeURIComponent(id)}`, {}], { every: ANEW_SECONDS });
  useTitle(task ? `${task.task_type} · Task` : "Task");
  const back = html`<p><a href=${go.href("tasks", { tenant: task?.tenant })}>All tasks</a></p>`;
  if (!task) {
    return html`${back}<h1>Task</h1>
      ${error?.status === 404
        ? html`<${Notice} title="There is no such task">It may have been deleted, or be somebody else’s.<//>`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the task" />`}`;
  }
  return html`${back}
    <h1><${Status} status=${task.status} /> ${task.task_type}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${task.error && html`<p class="error">${task.error}</p>`}
    <${Facts} task=${task} />
    ${task.result !== null &&
    html`<section aria-labelledby="result">
      <h2 id="result">Result</h2>
      <${Json} value=${task.result} label="Result as JSON" />
    </section>`}
    <section aria-labelledby="tries">
      <h2 id="tries">Tries</h2>
      ${task.timeline.length
        ? html`<ol class="timeline">${task.timeline.map((one) => html`<${Try} one=${one} />`)}</ol>`
        : html`<p class="quiet">None has ended yet.</p>`}
    </section>`;
}

function Facts({ task }) {
  const facts = [
    ["Handed in", html`<${Time} at=${task.created_at} both=${true} />`],
    ["Attempts", `${number(task.attempts)} of ${number(task.max_retry + 1)} at most`],
    ["Tenant", task.tenant],
    ["Task", html`<${Id} value=${task.job_id} />`],
  ];
  if (task.next_attempt_at) {
    facts.push(["Next try", html`<${Time} at=${task.next_attempt_at} both=${true} />`]);
  }
  if (task.ended_at) {
    facts.push(["Ended", html`<${Time} at=${task.ended_at} both=${true} />`]);
  }
  if (task.idempotency_key) {
    facts.push(["Key", html`<code>${task.idempotency_key}</code>`]);
  }
  return html`<${FactList} facts=${facts} />`;
}

function Try({ one }) {
  const seconds = (new Date(one.ended_at) - new Date(one.began_at)) / 1000;
  return html`<li>
    <p><b>Try ${one.number}: ${one.outcome}</b>
      <span class="quiet"> <${Time} at=${one.ended_at} />, after ${seconds.toFixed(seconds < 10 ? 1 : 0)} s</span></p>
    ${one.error && html`<p class="error">${one.error}</p>`}
    ${one.next_attempt_at && html`<p class="quiet">Next try at <${Time} at=${one.next_attempt_at} /></p>`}
  </li>`;
}
