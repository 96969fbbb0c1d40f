// One task: its payload, result and attempts.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { change, LIVE_SECONDS, useAnswer } from "../api.js";
import { Dialog } from "../dialog.js";
import { FactList, Failure, Id, Json, Notice, Status, useTitle, Waiting } from "../parts.js";
import { go } from "../place.js";
import { may } from "../roles.js";
import { number, Time } from "../times.js";

export const UNDER_WAY = ["pending", "in-progress"];

export function Task({ id }) {
  const { data: task, error, again } = useAnswer([`tasks/${encodeURIComponent(id)}`, {}], { every: LIVE_SECONDS });
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
    ${may("operator") && UNDER_WAY.includes(task.status) && html`<p class="buttons"><${Cancel} task=${task} done=${again} /></p>`}
    ${task.result !== null &&
    html`<section aria-labelledby="result">
      <h2 id="result">Result</h2>
      <${Json} value=${task.result} label="Result as JSON" />
    </section>`}
    <section aria-labelledby="tries">
      <h2 id="tries">Tries</h2>
      ${task.timeline.length
        ? html`<ol class="timeline">${task.timeline.map((one) => html`<${Try} one=${one} />`)}</ol>`
        : html`<p class="quiet">${task.attempts ? "The first attempt is in progress." : UNDER_WAY.includes(task.status) ? "No attempt yet." : "No attempt was made."}</p>`}
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
  if (task.dead_letter) {
    const href = go.href(`dead-letters/${task.dead_letter}`, { tenant: task.tenant });
    facts.push(["Dead letter", html`<a href=${href}>${task.status === "failed" ? "Why it failed, and what to do" : "How it failed before"}</a>`]);
  }
  facts.push(["Key", html`<code>${task.idempotency_key}</code>`]);
  return html`<${FactList} facts=${facts} />`;
}

// A button that cancels a task after a confirmation.
export function Cancel({ task, done, small = false }) {
  const [asked, setAsked] = useState(false);
  const [state, setState] = useState({ busy: false, error: null });
  const close = () => {
    setAsked(false);
    setState({ busy: false, error: null });
  };
  const cancel = async () => {
    setState({ busy: true, error: null });
    try {
      await change("POST", `tasks/${task.job_id}/cancel`);
      close();
    } catch (error) {
      setState({ busy: false, error });
    }
    done(); // the reason of a refusal is visible behind the dialog
  };
  return html`<button type="button" class=${small ? "small" : ""} aria-label=${`Cancel ${task.task_type} ${task.job_id}`}
      onClick=${() => setAsked(true)}>Cancel</button>
    ${asked &&
    html`<${Dialog} title="Cancel this task?" close=${close} busy=${state.busy}>
      <p>${task.task_type}, submitted <${Time} at=${task.created_at} />. It will not start again; a running attempt changes nothing.</p>
      ${state.error && html`<p class="failure" role="alert">${state.error.message}</p>`}
      <div class="buttons">
        <button class="main" type="button" disabled=${state.busy || state.error?.status === 409} onClick=${cancel}>Cancel it</button>
        <button type="button" disabled=${state.busy} onClick=${close}>Leave it</button>
      </div>
    <//>`}`;
}

function Try({ one }) {
  const seconds = (new Date(one.ended_at) - new Date(one.began_at)) / 1000;
  return html`<li>
    <p><b>Try ${one.number}: ${one.outcome}</b>${one.revision > 1 && html` <span class="quiet">of revision ${one.revision}</span>`}
      <span class="quiet"> <${Time} at=${one.ended_at} />, after ${seconds.toFixed(seconds < 10 ? 1 : 0)} s</span></p>
    ${one.error && html`<p class="error">${one.error}</p>`}
    ${one.next_attempt_at && html`<p class="quiet">Next attempt scheduled at <${Time} at=${one.next_attempt_at} /></p>`}
  </li>`;
}
