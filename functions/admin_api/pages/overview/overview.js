// The queues of the workers: depths, outcomes and failures, and pausing.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, change, etagOf, LIVE_SECONDS, STEADY_SECONDS, useAnswer } from "../api.js";
import { Ended, Gauge, Line } from "./charts.js";
import { anew } from "../reviews/decisions.js";
import { NoteDialog } from "../dialog.js";
import { Failure, Notice, Status, useTitle, Waiting, Who } from "../parts.js";
import { go, usePlace } from "../place.js";
import { may, maySeeEveryTenant } from "../roles.js";
import { tenantOf } from "../tenant.js";
import { lasting, number, Time } from "../times.js";


export const workerName = (worker) => worker.replaceAll("_", " ");
const sum = (values) => values.reduce((total, one) => total + one, 0);
// A value that was not measured is unknown, not zero.
const counted = (value) => (value === null ? "–" : number(value));

export function Overview() {
  const place = usePlace();
  const tenant = tenantOf(place, ask.session);
  const whole = maySeeEveryTenant() && place.query.get("of") !== "tenant";
  const { data, error, busy, again } = useAnswer(["admin/queues", { tenant: whole ? "" : tenant }], { every: LIVE_SECONDS });
  useTitle("Overview");
  return html`
    <h1>Overview</h1>
    <p class="lead">Pending and running work items, and the outcomes of the last hour.</p>
    ${maySeeEveryTenant() && tenant && html`<${Whose} whole=${whole} tenant=${tenant} />`}
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<div aria-busy=${busy}>
          <${Sums} data=${data} tenant=${tenant} />
          <${Troubles} data=${data} />
          <${Queues} data=${data} tenant=${tenant} again=${again} />
        </div>`
      : !error && html`<${Waiting} what="the queues" />`}
  `;
}

function Whose({ whole, tenant }) {
  return html`<nav class="choices" aria-label="Whose work">
    <a href=${go.href("overview", { tenant })} aria-current=${whole ? "true" : undefined}>All tenants</a>
    <a href=${go.href("overview", { tenant, of: "tenant" })} aria-current=${whole ? undefined : "true"}>Only ${tenant}</a>
  </nav>`;
}

function Sums({ data, tenant }) {
  const total = (name) => {
    const values = data.queues.map((queue) => queue[name]);
    return counted(values.includes(null) ? null : sum(values));
  };
  const ended = sum(data.queues.map((queue) => sum(queue.minutes.succeeded) + sum(queue.minutes.skipped) + sum(queue.minutes.failed)));
  const failed = sum(data.queues.map((queue) => sum(queue.minutes.failed)));
  return html`<dl class="sums">
      <div><dt>Waiting</dt><dd>${total("pending")}</dd></div>
      <div><dt>In progress</dt><dd>${total("running")}</dd></div>
      <div><dt>Ended in the last hour</dt><dd>${number(ended)}</dd></div>
      <div class=${failed ? "bad" : ""}><dt>Failed in the last hour</dt><dd>${number(failed)} <span class="quiet">${share(failed, ended)}</span></dd></div>
      <div><dt>Dead letters to be settled</dt><dd>${data.tenant === null ? total("dead") : html`<a href=${go.href("dead-letters", { tenant })}>${total("dead")}</a>`}</dd></div>
    </dl>
    <p class="quiet">${data.measured_at
      ? html`What waits was counted at <${Time} at=${data.measured_at} />; what is in progress just now.`
      : "What waits has not been counted within the hour: the watchdog does not run, or the deployment is new."}</p>`;
}

const share = (part, all) => (all ? `${((part / all) * 100).toFixed(part && part / all < 0.1 ? 1 : 0)} %` : "");

function Troubles({ data }) {
  const breakers = data.breakers ?? [];
  const alarms = data.alarms ?? [];
  if (!breakers.length && !alarms.length) {
    return data.breakers && html`<p class="well">${data.alarms ? "No alarm has gone off, and every service answers." : "Every service answers. CloudWatch does not say whether alarms have gone off."}</p>`;
  }
  return html`<section class="notice failure" aria-labelledby="troubles">
    <h2 id="troubles">What needs somebody</h2>
    <ul>
      ${alarms.map((alarm) => html`<li><b>${alarm.name}</b>${alarm.since && html` since <${Time} at=${alarm.since} />`}${alarm.says && html`<br />${alarm.says}`}</li>`)}
      ${breakers.map((breaker) => html`<li><b>${breaker.name}</b> does not answer since <${Time} at=${breaker.since} />: it is called again at <${Time} at=${breaker.until} />.</li>`)}
    </ul>
  </section>`;
}

function Queues({ data, tenant, again }) {
  if (!data.queues.length) {
    return html`<${Notice} title="No queues">This deployment has no worker that is fed by a queue.<//>`;
  }
  const switches = may("admin") && maySeeEveryTenant() && data.tenant === null;
  const whole = data.tenant === null;
  return html`<section aria-labelledby="queues">
    <h2 id="queues">Queues</h2>
    <table class="rows queues">
      <thead>
        <tr>
          <th scope="col">Worker</th>
          <th scope="col" class="count">Waiting</th>
          <th scope="col">Oldest</th>
          <th scope="col">In progress</th>
          ${whole && html`<th scope="col">Messages</th>`}
          <th scope="col">Ended, last hour</th>
          <th scope="col" class="count">Failed</th>
          <th scope="col" class="count">Dead</th>
          ${switches && html`<th scope="col"><span class="unseen">Pause or resume</span></th>`}
        </tr>
      </thead>
      <tbody>
        ${data.queues.map((queue) => html`<${Row} key=${queue.worker} queue=${queue} whole=${whole} switches=${switches} tenant=${tenant} again=${again} />`)}
      </tbody>
    </table>
    ${whole && html`<p class="quiet">Estimates by SQS: visible, in flight and delayed messages.</p>`}
  </section>`;
}

function Row({ queue, whole, switches, tenant, again }) {
  const { minutes } = queue;
  const done = minutes.succeeded.map((one, minute) => one + minutes.skipped[minute]);
  const failed = sum(minutes.failed);
  const ended = sum(done) + failed;
  return html`<tr class=${queue.is_paused ? "paused" : ""}>
    <td data-label="Worker"><b>${workerName(queue.worker)}</b>${queue.is_paused && html` <${Status} status="paused" />`}
      ${queue.in_effect === false && html`<br /><span class="quiet">Not applied by Lambda yet.</span>`}</td>
    <td data-label="Waiting" class="count">${counted(queue.pending)}</td>
    <td data-label="Oldest" class="oldest">${queue.oldest_seconds === null ? html`<span class="quiet">–</span>` : lasting(queue.oldest_seconds)}</td>
    <td data-label="In progress" class="charted"><span class="of-chart">${number(queue.running)}${
      queue.gate && html` <span class="quiet">of ${number(queue.gate)}</span>`
    }</span>${queue.gate && html`<${Gauge} used=${queue.running} of=${queue.gate} />`}</td>
    ${whole && html`<td data-label="Messages" class="charted"><${Messages} queue=${queue} /></td>`}
    <td data-label="Ended" class="charted"><span class="of-chart">${number(ended)} <span class="quiet">${perMinute(ended, done.length)}</span></span>
      <${Ended} done=${done} failed=${minutes.failed} label=${`${number(ended)} ended in the last hour, ${number(failed)} of them failed; ${number(Math.max(...done))} in the busiest minute`} /></td>
    <td data-label="Failed" class=${`count ${failed ? "bad" : ""}`}>${number(failed)} <span class="quiet">${share(failed, ended)}</span></td>
    <td data-label="Dead" class="count">${queue.dead && !whole ? html`<a href=${go.href("dead-letters", { tenant })}>${number(queue.dead)}</a>` : counted(queue.dead)}</td>
    ${switches && html`<td><${Switch} queue=${queue} again=${again} /></td>`}
  </tr>`;
}

const perMinute = (count, minutes) => (count ? `${(count / minutes).toFixed(count / minutes < 10 ? 1 : 0)} a minute` : "");

function Messages({ queue }) {
  const { approximate_visible: visible, approximate_in_flight: underWay, approximate_delayed: delayed } = queue;
  if (visible === null) {
    return html`<span class="quiet">SQS does not say</span>`;
  }
  const depth = queue.minutes.depth.filter((one) => one !== null);
  return html`<span class="of-chart">${number(visible)} <span class="quiet">+ ${number(underWay)} + ${number(delayed)}</span></span>
    <${Line} values=${queue.minutes.depth} label=${depth.length
      ? `Messages in the last hour: ${number(depth.at(-1))} at its end, ${number(Math.max(...depth))} at most`
      : "No measurement in the last hour"} />`;
}

function Switch({ queue, again }) {
  const [asked, setAsked] = useState(false);
  const [verb, path] = queue.is_paused ? ["Resume", "resume"] : ["Pause", "pause"];
  const name = workerName(queue.worker);
  const act = (reason) =>
    anew(again, async () => {
      await change("POST", `admin/queues/${queue.worker}/${path}`, { reason }, { etag: etagOf(queue.version) });
      setAsked(false);
      again();
    });
  return html`<button type="button" aria-label=${`${verb} ${name}`} onClick=${() => setAsked(true)}>${verb}</button>
    ${asked &&
    html`<${NoteDialog} title=${`${verb} the queue of ${name}`} verb=${verb} label="Why" act=${act} close=${() => setAsked(false)}>
      ${queue.is_paused
        ? html`<p><${Who} value=${queue.paused.by} /> paused it on <${Time} at=${queue.paused.at} />: ${queue.paused.reason}</p>
            <p class="quiet">It continues with the messages that have arrived since.</p>`
        : html`<p>No work item starts until someone resumes the queue, for any tenant. Pending work items lose no attempt; running ones end.</p>
            <p class="quiet">People of every tenant see this on every page; only people with all tenants see the author. Name no tenant.</p>`}
    <//>`}`;
}

// On every page, while a person has a queue paused.
export function PausedBanner({ tenant }) {
  const { data } = useAnswer(["admin/queues/paused", {}], { every: STEADY_SECONDS });
  const queues = data?.queues ?? [];
  return html`<div role="status">
    ${queues.length > 0 &&
    html`<div class="banner">
      <b>${queues.length === 1 ? "A queue is" : `${number(queues.length)} queues are`} paused.</b>
      ${queues.map((queue) => html`<span>${workerName(queue.worker)}${
        queue.paused && html`, by <${Who} value=${queue.paused.by} />`
      }: ${queue.reason} <span class="when">(since <${Time} at=${queue.since} />)</span></span>`)}
      <a href=${go.href("overview", { tenant })}>Overview</a>
    </div>`}
  </div>`;
}
