// Offers of one date in one time zone: their progress, shards and failed users.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { LEADING_SECONDS, STEADY_SECONDS, useAnswer } from "../api.js";
import { Job } from "./job.js";
import { Progress, ShardName } from "./parts.js";
import { FactList, Failure, Id, Notice, Status, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { lasting, number, Time } from "../times.js";

const SAYS = {
  running: "In progress. You can close this page.",
  completed: "Everybody has their offers, which never change.",
  failed: "The offers of some people failed. Fix the cause, then retry the dead letter of the shard.",
};

// Views of the second and third word of the path: a pool, or the job of a user.
export function OfferPage({ id, words }) {
  return words.length > 2 ? html`<${Job} pool=${id} user=${words[2]} />` : html`<${Pool} id=${id} />`;
}

function Pool({ id }) {
  const path = `admin/offers/${encodeURIComponent(id)}`;
  const { data: pool, error, again } = useAnswer([path, {}], { every: LEADING_SECONDS });
  useTitle(pool ? `${pool.date} ${pool.timezone} · Offers` : "Offers");
  const back = html`<p><a href=${go.href("offers", { tenant: pool?.tenant })}>All offers</a></p>`;
  if (!pool) {
    return html`${back}<h1>Offers</h1>
      ${error?.status === 404
        ? html`<${Notice} title="There are no such offers">They may be past keeping, or be of a tenant that you do not see.<//>`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the offers" />`}`;
  }
  return html`${back}
    <h1><${Status} status=${pool.state} /> ${pool.date} in ${pool.timezone}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    <p>${SAYS[pool.state]}</p>
    <p class="whole"><${Progress} pool=${pool} /> <span class="quiet">of ${number(pool.users)}</span></p>
    <dl class="counts">
      ${["completed", "running", "pending", "failed", "late"].map(
        (name) => html`<div><dt>${name}</dt><dd class=${pool[name] && (name === "failed" || name === "late") ? "bad" : ""}>${number(pool[name])}</dd></div>`,
      )}
    </dl>
    <${Facts} pool=${pool} />
    <${FindUser} pool=${pool} />
    ${pool.failed > 0 && html`<${FailedUsers} path=${path} pool=${pool} />`}
    <section aria-label="Shards">
      <h2>Shards</h2>
      <${Shards} pool=${pool} />
    </section>`;
}

function Facts({ pool }) {
  const { rules } = pool;
  const facts = [
    ["Offered at", html`<${Time} at=${pool.offered_at} both=${true} />`],
    ["Expire", html`<${Time} at=${pool.expires_at} both=${true} />`],
    ["Pinned", html`${number(pool.people)} people, <${Time} at=${pool.pinned_at} />`],
    ["Ended", pool.ended_at ? html`<${Time} at=${pool.ended_at} both=${true} />` : "not yet"],
    ["Rules", `${number(rules.offers)} of ${number(rules.candidates)} candidates, the same again after ${number(rules.repeat_days)} days at the earliest${
      rules.most_offered ? `, nobody to more than ${number(rules.most_offered)}` : ""
    }`],
    ["Algorithm", `version ${pool.algorithm_version}`],
    ["Tenant", pool.tenant],
    ["Pool", html`<${Id} value=${pool.id} />`],
  ];
  return html`<${FactList} facts=${facts} />`;
}

function FindUser({ pool }) {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) {
      go(`offers/${pool.id}/${encodeURIComponent(text.trim())}`, { tenant: pool.tenant });
    }
  };
  return html`<form class="filter" role="search" aria-label="User" onSubmit=${submit}>
    <label class="wide">User’s id
      <input type="search" value=${text} spellcheck=${false} onInput=${(event) => setText(event.target.value)} />
    </label>
    <div class="buttons"><button type="submit">Show the user’s offers</button></div>
  </form>`;
}

function FailedUsers({ path, pool }) {
  const cursor = usePlace().query.get("cursor") ?? "";
  const { data, error, again } = useAnswer([`${path}/failed`, { cursor }], { every: STEADY_SECONDS, version: pool.failed });
  const page = (more) => go.href(`offers/${pool.id}`, { tenant: pool.tenant, ...more });
  return html`<section aria-label="Failed users">
    <h2>Whose offers failed</h2>
    ${error && !data && html`<${Failure} error=${error} again=${again} />`}
    ${!data
      ? !error && html`<${Waiting} what="users" />`
      : html`<table class="rows">
            <thead><tr><th scope="col">User</th><th scope="col">Shard</th><th scope="col" class="count">Tries</th><th scope="col">Error</th></tr></thead>
            <tbody>
              ${data.users.map(
                (one) => html`<tr key=${one.user_id}>
                  <td data-label="User"><a href=${go.href(`offers/${pool.id}/${one.user_id}`, { tenant: pool.tenant })}><code>${one.user_id}</code></a></td>
                  <td data-label="Shard"><${ShardName} name=${one.shard} /></td>
                  <td data-label="Tries" class="count">${number(one.attempts)}</td>
                  <td data-label="Error">${one.error}</td>
                </tr>`,
              )}
            </tbody>
          </table>
          <p class="pages">
            ${cursor && html`<a class="button" href=${page({})}>First</a>`}
            ${data.next && html`<a class="button" href=${page({ cursor: data.next })}>Next</a>`}
          </p>`}
  </section>`;
}

function Shards({ pool }) {
  const left = pool.shards - pool.parts.length;
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Shard</th>
          <th scope="col" class="count">People</th>
          <th scope="col" class="count">Tries</th>
          <th scope="col">Ended</th>
          <th scope="col">State</th>
          <th scope="col">Error</th>
        </tr>
      </thead>
      <tbody>${pool.parts.map((shard) => html`<${ShardRow} key=${shard.id} shard=${shard} tenant=${pool.tenant} />`)}</tbody>
    </table>
    ${left > 0 && html`<p class="quiet">${number(left)} more, which have ended well or wait behind these.</p>`}`;
}

function ShardRow({ shard, tenant }) {
  const took = shard.ended_at && shard.claimed_at ? (new Date(shard.ended_at) - new Date(shard.claimed_at)) / 1000 : null;
  return html`<tr>
    <td data-label="Shard"><${ShardName} name=${shard.name} /></td>
    <td data-label="People" class="count">${number(shard.users)}</td>
    <td data-label="Tries" class="count">${number(shard.attempts)}</td>
    <td data-label="Ended">${shard.ended_at && html`<${Time} at=${shard.ended_at} />`}${
      took !== null && html` <span class="quiet nowrap">after ${lasting(took)}</span>`
    }${shard.next_attempt_at && html`<span class="quiet">next try <${Time} at=${shard.next_attempt_at} /></span>`}</td>
    <td data-label="State"><${Status} status=${shard.status} />${
      shard.put_aside > 0 && html` <span class="quiet nowrap">${number(shard.put_aside)} put aside</span>`
    }</td>
    <td data-label="Error">${shard.error}${
      shard.dead_letter && html` <a href=${go.href(`dead-letters/${shard.dead_letter}`, { tenant })}>Dead letter</a>`
    }</td>
  </tr>`;
}
