// Dead letters: what they died of, in groups, and the letters themselves. What is looked for stands in the address.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, useAnswer } from "./api.js";
import { go, usePlace } from "./place.js";
import { Failure, Notice, Pages, Status, useTitle, Waiting } from "./parts.js";
import { tenantOf } from "./shell.js";
import { number, startOfDay, Time } from "./times.js";

const ANEW_SECONDS = 5;
const LONGEST_TEXT = 200;
const STATUSES = ["pending", "retried", "resolved", "ignored"];

// What the address asks for.
function wantedOf(place) {
  const { query } = place;
  const status = query.getAll("status").filter((one) => STATUSES.includes(one));
  return {
    tenant: tenantOf(place, ask.session),
    status: status.length ? status : query.has("status") ? STATUSES : ["pending"],
    task_type: query.get("task_type") ?? "",
    text: query.get("text") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    fingerprint: query.get("fingerprint") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

// The address of what is wanted: what is usual stays unsaid.
function hrefOf({ status, ...wanted }) {
  const usual = status.length === 1 && status[0] === "pending";
  const all = status.length === STATUSES.length;
  return go.href("dead-letters", { ...wanted, status: usual ? [] : all ? ["all"] : status });
}

export function Letters() {
  const place = usePlace();
  const wanted = wantedOf(place);
  const { tenant, status, from, to, cursor, ...others } = wanted;
  useTitle("Dead letters");
  const live = { every: cursor ? 0 : ANEW_SECONDS };
  const stats = useAnswer(["admin/dlq/stats", { tenant }], live);
  const letters = useAnswer(
    ["admin/dlq", { tenant, status, from_date: startOfDay(from), to_date: startOfDay(to, 1), cursor, ...others }],
    live,
  );
  const narrowed = Boolean(wanted.text || wanted.fingerprint || cursor || from || to || wanted.task_type);
  return html`
    <h1>Dead letters</h1>
    <p class="lead">Work that ended in failure. Each stays here until a person settles it.</p>
    <${Counts} wanted=${wanted} stats=${stats.data} />
    <${Filter} wanted=${wanted} types=${stats.data?.task_types ?? []} />
    ${!narrowed && html`<${Groups} wanted=${wanted} />`}
    <${Found} wanted=${wanted} answer=${letters} narrowed=${narrowed} />
  `;
}

function Counts({ wanted, stats }) {
  const one = wanted.status.length === 1 ? wanted.status[0] : null;
  return html`<nav class="counts" aria-label="By state">
    ${STATUSES.map(
      (status) => html`<a
        href=${hrefOf({ ...wanted, status: [status], cursor: "" })}
        aria-current=${one === status ? "true" : undefined}
        ><b>${stats ? number(stats[status]) : "–"}</b> <${Status} status=${status}
      /></a>`,
    )}
    <a href=${hrefOf({ ...wanted, status: STATUSES, cursor: "" })}
      aria-current=${wanted.status.length === STATUSES.length ? "true" : undefined}
      ><b>${stats ? number(stats.count) : "–"}</b> <span>all</span></a>
  </nav>`;
}

function Filter({ wanted, types }) {
  const [text, setText] = useState(wanted.text);
  useEffect(() => setText(wanted.text), [wanted.text]);
  const change = (more) => go.to(hrefOf({ ...wanted, cursor: "", ...more }));
  const submit = (event) => {
    event.preventDefault();
    change({ text: text.trim() });
  };
  const known = types.map((one) => one.task_type);
  const listed = wanted.task_type && !known.includes(wanted.task_type) ? [...known, wanted.task_type] : known;
  const narrowed = wanted.text || wanted.task_type || wanted.from || wanted.to || wanted.fingerprint;
  return html`<form class="filter" role="search" aria-label="Dead letters" onSubmit=${submit}>
    <label class="wide">Words of the error or the file, or an id
      <input type="search" maxlength=${LONGEST_TEXT} value=${text} onInput=${(event) => setText(event.target.value)} />
    </label>
    <label>Type
      <select value=${wanted.task_type} onChange=${(event) => change({ task_type: event.target.value })}>
        <option value="">any</option>
        ${listed.map((type) => html`<option value=${type}>${type}</option>`)}
      </select>
    </label>
    <label>From
      <input type="date" value=${wanted.from} onChange=${(event) => change({ from: event.target.value })} />
    </label>
    <label>To
      <input type="date" value=${wanted.to} onChange=${(event) => change({ to: event.target.value })} />
    </label>
    <div class="buttons">
      <button class="main" type="submit">Search</button>
      ${narrowed && html`<a class="button" href=${go.href("dead-letters", { tenant: wanted.tenant })}>Clear</a>`}
    </div>
    ${wanted.fingerprint &&
    html`<p class="chosen">Only letters of the group <code>${wanted.fingerprint}</code>.
      <a href=${hrefOf({ ...wanted, fingerprint: "", cursor: "" })}>Show all groups</a></p>`}
  </form>`;
}

function Groups({ wanted }) {
  const { tenant, status } = wanted;
  const { data, error, again } = useAnswer(["admin/dlq/groups", { tenant, status, limit: 10 }], { every: ANEW_SECONDS });
  if (!data) {
    return error ? html`<${Failure} error=${error} again=${again} />` : null;
  }
  if (data.groups.length < 2) {
    return null; // one group says no more than the list
  }
  return html`<section aria-labelledby="groups">
    <h2 id="groups">What they died of</h2>
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Error</th>
          <th scope="col">Worker</th>
          <th scope="col" class="count">Pending</th>
          <th scope="col">Last 24 hours</th>
          <th scope="col">Last seen</th>
        </tr>
      </thead>
      <tbody>
        ${data.groups.map((group) => html`<${GroupRow} key=${group.fingerprint} group=${group} wanted=${wanted} />`)}
      </tbody>
    </table>
    ${data.next && html`<p class="quiet">The ten groups that died last are shown.</p>`}
  </section>`;
}

function GroupRow({ group, wanted }) {
  const href = hrefOf({ ...wanted, fingerprint: group.fingerprint, cursor: "" });
  return html`<tr>
    <td data-label="Error"><a href=${href}>${group.sentence}</a> <span class="quiet">${group.error_type}</span></td>
    <td data-label="Worker">${group.worker}</td>
    <td data-label="Pending" class="count">${number(group.pending)} <span class="quiet">of ${number(group.count)}</span></td>
    <td data-label="Last 24 hours"><${Trend} counts=${group.trend} /></td>
    <td data-label="Last seen"><${Time} at=${group.last_seen} /></td>
  </tr>`;
}

function Trend({ counts }) {
  const most = Math.max(1, ...counts);
  const sum = counts.reduce((total, one) => total + one, 0);
  return html`<svg class="trend" viewBox=${`0 0 ${counts.length * 5} 20`} role="img"
    aria-label=${sum ? `${number(sum)} in 24 hours, ${number(most)} in the worst of them` : "none in 24 hours"}>
    ${counts.map((one, hour) => {
      const height = one ? Math.max(2, (one / most) * 19) : 1;
      return html`<rect class=${one ? "some" : "none"} x=${hour * 5} y=${20 - height} width="4" height=${height} />`;
    })}
  </svg>`;
}

function Found({ wanted, answer, narrowed }) {
  const { data, error, busy, again } = answer;
  if (!data) {
    return error
      ? html`<${Failure} error=${error} again=${again} />`
      : html`<${Waiting} what="dead letters" />`;
  }
  const { letters, next } = data;
  return html`<section aria-labelledby="letters" aria-busy=${busy}>
    <h2 id="letters">Letters</h2>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${letters.length
      ? html`<table class="rows">
          <thead>
            <tr>
              <th scope="col">Died</th>
              <th scope="col">Error</th>
              <th scope="col">Type</th>
              <th scope="col" class="count">Attempts</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            ${letters.map((letter) => html`<${LetterRow} key=${letter.job_id} letter=${letter} />`)}
          </tbody>
        </table>`
      : html`<${Nothing} wanted=${wanted} narrowed=${narrowed} more=${next} />`}
    <${Pages}
      newest=${wanted.cursor && hrefOf({ ...wanted, cursor: "" })}
      older=${next && hrefOf({ ...wanted, cursor: next })}
    />
  </section>`;
}

function Nothing({ wanted, narrowed, more }) {
  if (more) {
    return html`<p class="notice">Nothing on this page of the search. Older letters may have it.</p>`;
  }
  if (narrowed) {
    return html`<${Notice} title="Nothing found">No letter is like that. Clear the search, or ask for other states.<//>`;
  }
  const only = wanted.status.length === 1 && wanted.status[0] === "pending";
  return html`<${Notice} title=${only ? "No work is waiting for a person" : "There are none"}
    >${only ? "Whatever was handed in has succeeded, is under way, or was settled." : "No letter has such a state."}<//
  >`;
}

function LetterRow({ letter }) {
  const error = letter.metadata.last_error;
  const href = go.href(`dead-letters/${letter.job_id}`, { tenant: letter.tenant });
  return html`<tr>
    <td data-label="Died"><${Time} at=${letter.dlq_timestamp} /></td>
    <td data-label="Error"><a href=${href}>${error.message || error.type}</a> <span class="quiet">${error.type}</span></td>
    <td data-label="Type">${letter.task_type}</td>
    <td data-label="Attempts" class="count">${number(letter.attempts)}</td>
    <td data-label="State"><${Status} status=${letter.status} /></td>
  </tr>`;
}
