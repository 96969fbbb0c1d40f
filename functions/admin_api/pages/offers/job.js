// A user's offers of one date, and their computation.

import { html } from "htm/preact";
import { LIVE_SECONDS, useAnswer } from "../api.js";
import { ShardName } from "./parts.js";
import { FactList, Failure, Id, Notice, Status, useTitle, Waiting } from "../parts.js";
import { go } from "../place.js";
import { number, Time } from "../times.js";

const WHOLE = 100; // of 10,000: a score as people read it

export function Job({ pool, user }) {
  const path = `admin/offers/${encodeURIComponent(pool)}/users/${encodeURIComponent(user)}`;
  const { data: job, error, again } = useAnswer([path, {}], { every: LIVE_SECONDS });
  useTitle("A user’s offers");
  const back = html`<p><a href=${go.href(`offers/${pool}`, { tenant: job?.tenant })}>All of this date and time zone</a></p>`;
  if (!job) {
    return html`${back}<h1>A user’s offers</h1>
      ${error?.status === 404
        ? html`<${Notice} title="No offers of this user">The user has no profile, or the offers of another date or time zone.<//>`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the user’s offers" />`}`;
  }
  return html`${back}
    <h1><${Status} status=${job.status} /> ${job.date} in ${job.timezone}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${job.error && html`<p class="error">${job.error}</p>`}
    ${job.dead_letter && html`<p><a href=${go.href(`dead-letters/${job.dead_letter}`, { tenant: job.tenant })}>Dead letter of its shard</a></p>`}
    <${Facts} job=${job} />
    <section aria-label="Who is offered">
      <h2>Who is offered</h2>
      ${job.offers.length
        ? html`<${Rows} offers=${job.offers} />`
        : html`<p class="quiet">${job.status === "completed" ? "No eligible people." : "No offers yet."}</p>`}
    </section>`;
}

function Facts({ job }) {
  const facts = [
    ["User", html`<${Id} value=${job.user_id} />`],
    ["Attempts", number(job.attempts)],
    ["Shard", html`<${ShardName} name=${job.shard} />, <${Id} value=${job.shard_id} />`],
    ["Tenant", job.tenant],
  ];
  if (job.started_at) {
    facts.push(["Begun", html`<${Time} at=${job.started_at} both=${true} />`]);
  }
  if (job.completed_at) {
    facts.push(["Completed", html`<${Time} at=${job.completed_at} both=${true} />`]);
  }
  if (job.inputs_hash) {
    facts.push(["Made of", html`version ${job.algorithm_version}, <${Id} value=${job.inputs_hash} />`]);
  }
  return html`<${FactList} facts=${facts} />`;
}

function Rows({ offers }) {
  return html`<table class="rows">
    <thead><tr><th scope="col" class="count">No.</th><th scope="col">User</th><th scope="col" class="count">Suits</th><th scope="col">Until</th><th scope="col">State</th></tr></thead>
    <tbody>
      ${offers.map(
        (offer, rank) => html`<tr key=${offer.id}>
          <td data-label="No." class="count">${rank + 1}</td>
          <td data-label="User"><code>${offer.userId}</code></td>
          <td data-label="Suits" class="count">${(offer.compatibilityScore / WHOLE).toFixed(1)} %</td>
          <td data-label="Until"><${Time} at=${offer.expiresAt} /></td>
          <td data-label="State">${offer.isWithdrawn ? html`<${Status} status="withdrawn" />` : html`<${Status} status="shown" />`}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
