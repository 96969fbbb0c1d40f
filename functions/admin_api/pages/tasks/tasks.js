// Tasks submitted by programs. The filter is in the address.

import { html } from "htm/preact";
import { ask, LIVE_SECONDS, useAnswer } from "../api.js";
import { ANY, Choice, Days } from "../fields.js";
import { Failure, Notice, Pages, Status, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { may } from "../roles.js";
import { Cancel, UNDER_WAY } from "./task.js";
import { tenantOf } from "../tenant.js";
import { number, startOfDay, Time } from "../times.js";

const STATUSES = ["pending", "in-progress", "succeeded", "failed", "cancelled"];

function wantedOf(place) {
  const { query } = place;
  return {
    tenant: tenantOf(place, ask.session),
    status: STATUSES.includes(query.get("status")) ? query.get("status") : "",
    task_type: query.get("task_type") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

export function Tasks() {
  const place = usePlace();
  const wanted = wantedOf(place);
  const { from, to, ...others } = wanted;
  useTitle("Tasks");
  const { data, error, busy, again } = useAnswer(
    ["tasks", { ...others, from: startOfDay(from), to: startOfDay(to, 1) }],
    { every: wanted.cursor ? 0 : LIVE_SECONDS },
  );
  return html`
    <h1>Tasks</h1>
    <p class="lead">Work submitted by programs. You see your own tasks; admins see all.</p>
    <${Filter} wanted=${wanted} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Tasks" aria-busy=${busy}><${Rows} wanted=${wanted} data=${data} again=${again} /></section>`
      : !error && html`<${Waiting} what="tasks" />`}
  `;
}

function Filter({ wanted }) {
  const change = (more) => go("tasks", { ...wanted, cursor: "", ...more });
  const narrowed = wanted.status || wanted.task_type || wanted.from || wanted.to;
  return html`<form class="filter" role="search" aria-label="Tasks" onSubmit=${(event) => event.preventDefault()}>
    <label class="wide">Type
      <input type="search" value=${wanted.task_type} onChange=${(event) => change({ task_type: event.target.value.trim() })} />
    </label>
    <${Choice} title="State" value=${wanted.status} options=${[ANY, ...STATUSES.map((status) => [status, status])]} choose=${(status) => change({ status })} />
    <${Days} wanted=${wanted} change=${change} />
    ${narrowed && html`<div class="buttons"><a class="button" href=${go.href("tasks", { tenant: wanted.tenant })}>Clear</a></div>`}
  </form>`;
}

function Rows({ wanted, data, again }) {
  if (!data.tasks.length) {
    const narrowed = wanted.status || wanted.task_type || wanted.from || wanted.to || wanted.cursor;
    return narrowed
      ? html`<${Notice} title="Nothing found">No task is like that. Clear the filter, or ask for another state.<//>`
      : html`<${Notice} title="No tasks yet"
          >Programs hand them in by <code>POST /api/tasks</code>, people by <code>counterfoil tasks submit</code>.<//
        >`;
  }
  const cancels = may("operator");
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Handed in</th>
          <th scope="col">Type</th>
          <th scope="col" class="count">Tries</th>
          <th scope="col">State</th>
          <th scope="col">Error</th>
          ${cancels && html`<th scope="col"><span class="unseen">Cancel</span></th>`}
        </tr>
      </thead>
      <tbody>
        ${data.tasks.map(
          (task) => html`<tr key=${task.job_id}>
            <td data-label="Handed in"><a href=${go.href(`tasks/${task.job_id}`, { tenant: task.tenant })}><${Time} at=${task.created_at} /></a></td>
            <td data-label="Type">${task.task_type}</td>
            <td data-label="Tries" class="count">${number(task.attempts)} <span class="quiet">of ${number(task.max_retry + 1)}</span></td>
            <td data-label="State"><${Status} status=${task.status} />${
              UNDER_WAY.includes(task.status) && task.next_attempt_at && html` <span class="quiet">next try <${Time} at=${task.next_attempt_at} /></span>`
            }</td>
            <td data-label="Error">${task.error}</td>
            ${cancels && html`<td>${UNDER_WAY.includes(task.status) && html`<${Cancel} task=${task} done=${again} small />`}</td>`}
          </tr>`,
        )}
      </tbody>
    </table>
    <${Pages}
      newest=${wanted.cursor && go.href("tasks", { ...wanted, cursor: "" })}
      older=${data.next && go.href("tasks", { ...wanted, cursor: data.next })}
    />`;
}
