// Groups of dead letters with the same error, their trend, and actions on a whole group.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { STEADY_SECONDS, useAnswer } from "../api.js";
import { BulkDialog } from "./bulk.js";
import { ACTIONS, mayChangeMany } from "./changes.js";
import { Failure, Status } from "../parts.js";
import { number, Time } from "../times.js";

const FIRST = 10;
const MOST = 100; // of one page of the API

// Every change of a dead letter changes `counts`: groups are requested again then.
export function Groups({ wanted, counts, hrefOf }) {
  const { tenant, status } = wanted;
  const many = mayChangeMany(tenant);
  const [asked, setAsked] = useState(null); // { action, group }
  const [limit, setLimit] = useState(FIRST);
  const { data, error, again } = useAnswer(["admin/dlq/groups", { tenant, status, limit }], { every: STEADY_SECONDS, version: counts });
  if (!data) {
    return error ? html`<${Failure} error=${error} again=${again} />` : null;
  }
  if (data.groups.length < 2) {
    return null; // one group says no more than the list
  }
  return html`<section aria-labelledby="groups">
    <h2 id="groups">Groups by error</h2>
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Error</th>
          <th scope="col">Worker</th>
          <th scope="col" class="count">Pending</th>
          <th scope="col">Last 24 hours</th>
          <th scope="col">Last seen</th>
          <th scope="col">State</th>
          ${many && html`<th scope="col">Whole group</th>`}
        </tr>
      </thead>
      <tbody>
        ${data.groups.map((group) => html`<${GroupRow} key=${group.fingerprint} group=${group} many=${many}
          href=${hrefOf({ ...wanted, fingerprint: group.fingerprint, cursor: "" })}
          begin=${(action) => setAsked({ action, group })} />`)}
      </tbody>
    </table>
    ${data.next &&
    html`<p class="quiet">The ${number(data.groups.length)} groups that died last are shown.
      ${limit < MOST && html` <button type="button" class="link" onClick=${() => setLimit(MOST)}>Show more groups</button>`}</p>`}
    ${asked &&
    html`<${BulkDialog} action=${asked.action} letters=${[]} filter=${{ tenant, fingerprint: asked.group.fingerprint }}
      of=${asked.group.sentence} close=${() => setAsked(null)} />`}
  </section>`;
}

function GroupRow({ group, many, href, begin }) {
  return html`<tr>
    <td data-label="Error"><a href=${href}>${group.sentence}</a> <span class="quiet">${group.error_type}</span></td>
    <td data-label="Worker">${group.worker}</td>
    <td data-label="Pending" class="count">${number(group.pending)} <span class="quiet">of ${number(group.count)}</span></td>
    <td data-label="Last 24 hours"><${Trend} counts=${group.trend} /></td>
    <td data-label="Last seen"><${Time} at=${group.last_seen} /></td>
    <td data-label="State"><${Status} status=${group.state} /></td>
    ${many &&
    html`<td data-label="Whole group">
      ${group.pending > 0 &&
      html`<div class="buttons">
        ${Object.entries(ACTIONS).map(
          ([name, { verb }]) => html`<button type="button" class="small" aria-label=${`${verb} the group: ${group.sentence}`}
            onClick=${() => begin(name)}>${verb}</button>`,
        )}
      </div>`}
    </td>`}
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
