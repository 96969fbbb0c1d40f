// Tasks that programs handed in: what is under way and what came of the others. The filter stands in the address.

import { html } from "htm/preact";
import { ask, useAnswer } from "./api.js";
import { Failure, Notice, Pages, Status, useTitle, Waiting } from "./parts.js";
import { go, usePlace } from "./place.js";
import { tenantOf } from "./shell.js";
import { number, startOfDay, Time } from "./times.js";

const ANEW_SECONDS = 5;
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
    { every: wanted.cursor ? 0 : ANEW_SECONDS },
  );
  return html`
    <h1>Tasks</h1>
    <p class="lead">Work that programs handed in. You see your own; an admin sees everybody’s.</p>
    <${Filter} wanted=${wanted} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Tasks" aria-busy=${busy}><${Rows} wanted=${wanted} data=${data} /></section>`
      : !error && html`<${Waiting} what="tasks" />`}
  `;
}

function Filter({ wanted }) {
  const change = (more) => go("tasks", { ...wanted, cursor: "", ...more });
  return html`<form class="filter" role="search" aria-label="Tasks" onSubmit=${(event) => event.preventDefault()}>
    <label class="wide">Type
      <input type="search" value=${wanted.task_type} onChange=${(event) => change({ task_type: event.target.value.trim() })} />
    </label>
    <label>State
      <select value=${wanted.status} onChange=${(event) => change({ status: event.target.value })}>
        <option value="">any</option>
        ${STATUSES.map((status) => html`<option value=${status}>${status}</option>`)}
      </select>
    </label>
    <label>From
      <input type="date" value=${wanted.from} onChange=${(event) => change({ from: event.target.value })} />
    </label>
    <label>To
      <input type="date" value=${wanted.to} onChange=${(event) => change({ to: event.target.value })} />
    </label>
  </form>`;
}

function Rows({ wanted, data }) {
  if (!data.tasks.length) {
    return html`<${Notice} title="No tasks">None of them is like that, or none was handed in yet.<//>`;
  }
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Handed in</th>
          <th scope="col">Type</th>
          <th scope="col" class="count">Attempts</th>
          <th scope="col">State</th>
          <th scope="col">Error</th>
        </tr>
      </thead>
      <tbody>
        ${data.tasks.map(
          (task) => html`<tr key=${task.job_id}>
            <td data-label="Handed in"><a href=${go.href(`tasks/${task.job_id}`, { tenant: task.tenant })}><${Time} at=${task.created_at} /></a></td>
            <td data-label="Type">${task.task_type}</td>
            <td data-label="Attempts" class="count">${number(task.attempts)}</td>
            <td data-label="State"><${Status} status=${task.status} /></td>
            <td data-label="Error">${task.error}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <${Pages}
      newest=${wanted.cursor && go.href("tasks", { ...wanted, cursor: "" })}
      older=${data.next && go.href("tasks", { ...wanted, cursor: data.next })}
    />`;
}
