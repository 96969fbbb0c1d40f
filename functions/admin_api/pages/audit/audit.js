// The audit trail: who changed what and when, and how to verify it.

import { html } from "htm/preact";
import { ask, LIVE_SECONDS, useAnswer } from "../api.js";
import { shownJson } from "../letters/jsontext.js";
import { Failure, Id, Notice, Pages, useTitle, Waiting, Who } from "../parts.js";
import { go, usePlace } from "../place.js";
import { tenantOf } from "../tenant.js";
import { number, Time } from "../times.js";

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function Audit() {
  const place = usePlace();
  const tenant = tenantOf(place, ask.session);
  const target = place.query.get("target") ?? "";
  const cursor = place.query.get("cursor") ?? "";
  useTitle("Audit");
  const { data, error, again } = useAnswer(["admin/dlq/audit", { tenant, target, cursor }], {
    every: cursor ? 0 : LIVE_SECONDS,
  });
  return html`
    <h1>Audit</h1>
    <p class="lead">Who changed what. Each entry holds a hash of itself and of the one before it, and none can be changed
      or deleted.</p>
    <${Filter} tenant=${tenant} target=${target} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Entries">
          ${data.entries.length
            ? html`<${AuditEntries} entries=${data.entries} tenant=${tenant} />`
            : html`<${Notice} title="No entries"
                >${target ? "No changes." : "No changes in this tenant yet."}<//
              >`}
          <${Pages}
            newest=${cursor && go.href("audit", { tenant, target })}
            older=${data.next && go.href("audit", { tenant, target, cursor: data.next })}
          />
        </section>`
      : !error && html`<${Waiting} what="the audit trail" />`}
    <section aria-labelledby="verify">
      <h2 id="verify">Verify the trail</h2>
      <p>Anyone with the viewer role can verify every hash, with the address of this deployment
        in <code>COUNTERFOIL_URL</code> and an ID token in <code>COUNTERFOIL_TOKEN</code>:</p>
      <pre tabindex="0" role="region" aria-label="Command">counterfoil audit verify --tenant ${tenant}</pre>
      <p class="quiet">The command names the first entry that was changed, removed, inserted or moved. Keep the hash of the newest
        entry in another place regularly: a rewrite of the whole trail cannot match it.</p>
    </section>
  `;
}

function Filter({ tenant, target }) {
  const submit = (event) => {
    event.preventDefault();
    go("audit", { tenant, target: event.target.elements.target.value.trim() });
  };
  return html`<form class="filter" role="search" aria-label="Audit" onSubmit=${submit}>
    <label class="wide">Changes of one dead letter, by its id
      <input type="search" name="target" key=${target} defaultValue=${target} spellcheck=${false} autocomplete="off"
        pattern=${ID.source} title="The whole id, as the page of the letter has it" />
    </label>
    <div class="buttons">
      <button class="main" type="submit">Show</button>
      ${target && html`<a class="button" href=${go.href("audit", { tenant })}>Clear</a>`}
    </div>
  </form>`;
}

// Entries of the trail. `ofOne`: they are about the dead letter on the page.
export function AuditEntries({ entries, tenant, ofOne = false }) {
  return html`<table class="rows">
    <thead>
      <tr>
        <th scope="col" class="count">No.</th>
        <th scope="col">When</th>
        <th scope="col">Who</th>
        <th scope="col">What</th>
        ${!ofOne && html`<th scope="col">Of what</th>`}
        <th scope="col">More</th>
      </tr>
    </thead>
    <tbody>
      ${entries.map(
        (entry) => html`<tr key=${entry.number}>
          <td data-label="No." class="count">${number(entry.number)}</td>
          <td data-label="When"><${Time} at=${entry.recorded_at} /></td>
          <td data-label="Who"><${Who} value=${entry.actor} /></td>
          <td data-label="What">${entry.action}${
            entry.version_after !== null &&
            html` <span class="quiet">version ${entry.version_before} → ${entry.version_after}</span>`
          }</td>
          ${!ofOne && html`<td data-label="Of what"><${Targets} entry=${entry} tenant=${tenant} /></td>`}
          <td data-label="More"><${More} entry=${entry} /></td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

const SHOWN = 3;
const OF_LETTERS = ["retried", "resolved", "ignored", "edited"];

// Link to the changed object: a view, or null.
function viewOf(action) {
  return OF_LETTERS.includes(action) ? "dead-letters" : action.startsWith("bulk-") ? "operations" : null;
}

function Targets({ entry: { action, targets }, tenant }) {
  const view = viewOf(action);
  const short = (target) => html`<code title=${target}>${ID.test(target) ? `…${target.slice(-8)}` : target}</code>`;
  return html`${targets
      .slice(0, SHOWN)
      .map((target) => (view ? html`<a href=${go.href(`${view}/${target}`, { tenant })}>${short(target)}</a> ` : html`${short(target)} `))}
    ${targets.length > SHOWN && html`<span class="quiet">and ${number(targets.length - SHOWN)} more</span>`}`;
}

function More({ entry }) {
  const { detail } = entry;
  return html`<details>
    <summary>Hashes${Object.keys(detail).length > 0 && " and details"}</summary>
    <p>This entry <${Id} value=${entry.hash} /></p>
    ${entry.note_hash && html`<p>Its note <${Id} value=${entry.note_hash} /></p>`}
    ${Object.keys(detail).length > 0 && html`<pre tabindex="0" role="region" aria-label="Details">${shownJson(detail, 2)}</pre>`}
  </details>`;
}
