// Operations on dead letters and documents: the progress of each, and the controls of those in progress.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, change, etagOf, LEADING_SECONDS, LIVE_SECONDS, STEADY_SECONDS, useAnswer } from "../api.js";
import { MOST_A_SECOND } from "./bulk.js";
import { ACTIONS } from "./changes.js";
import { Dialog } from "../dialog.js";
import { useKeys } from "../keys.js";
import { Done, FactList, Failure, Id, Notice, Pages, Status, useTitle, Waiting, Who } from "../parts.js";
import { go, usePlace } from "../place.js";
import { may } from "../roles.js";
import { PurgeDialog } from "./purges.js";
import { tenantOf } from "../tenant.js";
import { number, Time } from "../times.js";

const ALIVE = ["waiting", "canary", "running", "paused"];
const SAYS = {
  waiting: "Its letters are being selected.",
  canary: "Canary running. The rest start when it succeeds.",
  running: "It continues without this page.",
  paused: "It waits until it is resumed. Items that were begun continue.",
  done: "It is complete.",
  cancelled: "It was cancelled. Completed items are not undone.",
  stopped: "It ended itself.",
};

const REPROCESSING = { extract: "Extract", match: "Match" };
const MOST_A_MINUTE = 1000; // documents
const VERBS = { ...REPROCESSING, purge: "Purge", restore: "Restore", export: "Export" }; // of those that list no letters

const verbOf = ({ action }) => ACTIONS[action]?.verb ?? VERBS[action] ?? action;
const nounOf = ({ action }) => (action in REPROCESSING ? "document" : "dead letter");

// Number of items with a result, and of selected items so far.
function countsOf({ done, failed, skipped, left, total }) {
  const handled = done + failed + skipped;
  return { handled, meant: total ?? handled + left };
}

function Progress({ operation }) {
  const { handled, meant } = countsOf(operation);
  return html`<progress value=${handled} max=${Math.max(1, meant)} aria-label="Items with a result"></progress>
    <span class="quiet"> ${number(handled)} of ${number(meant)}${operation.total === null && " so far"}</span>`;
}

function back(tenant) {
  return html`<p><a href=${go.href("dead-letters", { tenant })}>All dead letters</a></p>`;
}

export function Operations() {
  const place = usePlace();
  const tenant = tenantOf(place, ask.session);
  const cursor = place.query.get("cursor") ?? "";
  const [purging, setPurging] = useState(false);
  const [said, setSaid] = useState(null);
  useTitle("Operations");
  const { data, error, again } = useAnswer(["admin/operations", { tenant, cursor }], { every: cursor ? 0 : LIVE_SECONDS });
  const done = (sentence) => {
    setPurging(false);
    setSaid(sentence);
    again();
  };
  return html`${back(tenant)}
    <h1>Operations</h1>
    <p class="lead">Changes of many dead letters, purges, and reprocessing of documents.</p>
    ${said && html`<${Done}>${said}<//>`}
    ${may("admin") && html`<p><button type="button" class="danger" onClick=${() => setPurging(true)}>Purge letters…</button></p>`}
    ${purging && html`<${PurgeDialog} tenant=${tenant} close=${() => setPurging(false)} done=${done} />`}
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Operations">
          ${data.operations.length ? html`<${Rows} operations=${data.operations} />` : html`<${Notice} title="None yet"
            >Choose letters in the list, or look for some, and retry, resolve or ignore them together.<//
          >`}
          <${Pages} newest=${cursor && go.href("operations", { tenant })} older=${data.next && go.href("operations", { tenant, cursor: data.next })} />
        </section>`
      : !error && html`<${Waiting} what="operations" />`}`;
}

function Rows({ operations }) {
  return html`<table class="rows">
    <thead>
      <tr>
        <th scope="col">Asked for</th>
        <th scope="col">What</th>
        <th scope="col">Who</th>
        <th scope="col">Progress</th>
        <th scope="col" class="count">Failed</th>
        <th scope="col">State</th>
      </tr>
    </thead>
    <tbody>
      ${operations.map(
        (operation) => html`<tr key=${operation.operation_id}>
          <td data-label="Asked for"><a href=${go.href(`operations/${operation.operation_id}`, { tenant: operation.tenant })}
            ><${Time} at=${operation.requested_at} /></a></td>
          <td data-label="What">${verbOf(operation)}</td>
          <td data-label="Who"><${Who} value=${operation.requested_by} /></td>
          <td data-label="Progress"><${Progress} operation=${operation} /></td>
          <td data-label="Failed" class="count">${number(operation.failed)}</td>
          <td data-label="State"><${Status} status=${operation.state} />
            ${operation.reason && html`<p class="quiet">${operation.reason}</p>`}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

export function Operation({ id }) {
  const path = `admin/operations/${encodeURIComponent(id)}`;
  const { data: operation, error, again } = useAnswer([path, {}], { every: LEADING_SECONDS });
  useTitle("Operation");
  if (!operation) {
    return html`<h1>Operation</h1>
      ${error?.status === 404
        ? html`<${Notice} title="There is no such operation">It may have been deleted, or be of a tenant that you do not see.<//>`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the operation" />`}`;
  }
  const { tenant } = operation;
  const { meant } = countsOf(operation);
  const facts = [
    ["Asked for", html`<${Time} at=${operation.requested_at} both=${true} /> by <${Who} value=${operation.requested_by} />`],
    ["Tenant", tenant],
    ["Which", operation.filter === null ? "letters that were chosen" : html`<${Which} operation=${operation} />`],
    ["Operation", html`<${Id} value=${operation.operation_id} />`],
  ];
  if (operation.rate !== null) {
    facts.splice(1, 0, ["Rate", `${number(operation.rate)} per ${operation.action in REPROCESSING ? "minute" : "second"} at most`]);
  }
  if (operation.canary) {
    facts.push(["Canary", `${number(operation.canary)} first`]);
  }
  if (operation.notes) {
    facts.push(["Note", operation.notes]);
  }
  if (operation.ended_at) {
    facts.push(["Ended", html`<${Time} at=${operation.ended_at} both=${true} />`]);
  }
  return html`<p><a href=${go.href("operations", { tenant })}>All operations</a></p>
    <h1><${Status} status=${operation.state} /> ${verbOf(operation)} ${number(meant)}
      ${` ${nounOf(operation)}${meant === 1 ? "" : "s"}`}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    <p>${SAYS[operation.state]} ${operation.reason && html`<b>${operation.reason}</b>`}</p>
    <p class="whole"><${Progress} operation=${operation} /></p>
    <dl class="counts">
      ${["done", "failed", "skipped"].map((name) => html`<div><dt>${name}</dt><dd>${number(operation[name])}</dd></div>`)}
      <div><dt>to come</dt><dd>${number(operation.left)}</dd></div>
    </dl>
    ${may("operator") && ALIVE.includes(operation.state) && html`<${Controls} operation=${operation} path=${path} again=${again} />`}
    ${operation.restorable_until && html`<${Restore} operation=${operation} path=${path} />`}
    <${FactList} facts=${facts} />
    ${!(operation.action in VERBS) && html`<${Items} path=${path} operation=${operation} id=${id} alive=${ALIVE.includes(operation.state)} />`}`;
}

// Undoes a purge, within a week.
function Restore({ operation, path }) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  if (new Date(operation.restorable_until) <= new Date()) {
    return html`<p>The dead letters are deleted.</p>`;
  }
  const restore = async () => {
    setBusy(true);
    setFailure(null);
    try {
      const { data } = await change("POST", `${path}/restore`, null, { etag: etagOf(operation.version) });
      go(`operations/${data.operation_id}`, { tenant: operation.tenant });
    } catch (error) {
      setFailure(error);
      setBusy(false);
    }
  };
  return html`<p>It can be undone until <${Time} at=${operation.restorable_until} />.
      ${may("admin") && html` <button type="button" disabled=${busy} onClick=${restore}>Undo</button>`}</p>
    ${failure && html`<p class="failure" role="alert">${failure.message}</p>`}`;
}

// What the filter of an operation says.
function Which({ operation: { action, filter } }) {
  const said = Object.entries(filter).filter(([, value]) => value !== null);
  return said.length
    ? said.map(([name, value]) => html`<span class="chip">${name.replaceAll("_", " ")}: <b>${String(value)}</b></span> `)
    : action === "export" ? "all" : "all that were pending";
}

function Controls({ operation, path, again }) {
  const [failure, setFailure] = useState(null);
  const [said, setSaid] = useState(null);
  const [busy, setBusy] = useState(false);
  const [cancelling, setCancelling] = useState(false);
  const [rate, setRate] = useState(operation.rate);
  const paused = operation.state === "paused";
  const reprocesses = operation.action in REPROCESSING;
  const act = async (what, sentence) => {
    setBusy(true);
    setFailure(null);
    try {
      const seen = { etag: etagOf(operation.version) };
      await (what === "rate" ? change("PATCH", path, { rate: Number(rate) }, seen) : change("POST", `${path}/${what}`, null, seen));
      setSaid(sentence);
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
    setCancelling(false);
    again();
  };
  const pause = () => act("pause", "It is paused.");
  const resume = () => act("resume", "It goes on.");
  const changeRate = (event) => {
    event.preventDefault();
    act("rate", "The rate is changed.");
  };
  useKeys([{ key: "p", what: paused ? "Resume" : "Pause", act: paused ? resume : pause }]);
  return html`<div class="buttons actions">
      ${paused
        ? html`<button type="button" class="main" disabled=${busy} onClick=${resume}>Resume</button>`
        : html`<button type="button" disabled=${busy} onClick=${pause}>Pause</button>`}
      <button type="button" class="danger" disabled=${busy} onClick=${() => setCancelling(true)}>Cancel…</button>
    </div>
    ${operation.rate !== null && may(reprocesses ? "admin" : "operator") &&
    html`<form class="buttons" onSubmit=${changeRate}>
      <label>At most <input type="number" min="1" max=${reprocesses ? MOST_A_MINUTE : MOST_A_SECOND} required value=${rate}
        onInput=${(event) => setRate(event.target.value)} /> a ${reprocesses ? "minute" : "second"}</label>
      <button disabled=${busy}>Change rate</button>
    </form>`}
    ${failure && html`<p class="failure" role="alert">${failure.message}</p>`}
    ${said && html`<${Done}>${said}<//>`}
    ${cancelling &&
    html`<${Dialog} title="Cancel this operation?" close=${() => setCancelling(false)} busy=${busy}>
      <p>Completed items stay as they are. Dead letters without a result do not change.</p>
      <div class="buttons">
        <button type="button" class="danger" disabled=${busy} onClick=${() => act("cancel", "It is cancelled.")}>Cancel operation</button>
        <button type="button" disabled=${busy} onClick=${() => setCancelling(false)}>Let it go on</button>
      </div>
    <//>`}`;
}

const RESULTS = ["", "done", "failed", "skipped"];

function Items({ path, operation, id, alive }) {
  const { tenant } = operation;
  const { query } = usePlace();
  const cursor = query.get("cursor") ?? "";
  const result = RESULTS.includes(query.get("result")) ? query.get("result") : "";
  const { data, error, again } = useAnswer([`${path}/items`, { cursor, result }], { every: alive ? STEADY_SECONDS : 0, version: operation });
  const page = (more) => go.href(`operations/${id}`, { tenant, result, ...more });
  return html`<section aria-labelledby="items">
    <div class="heading">
      <h2 id="items">Each letter</h2>
      <nav class="aside" aria-label="By result">
        ${RESULTS.map((one) => html`<a href=${page({ result: one })} aria-current=${one === result ? "true" : undefined}>${one || "all"}</a>`)}
      </nav>
    </div>
    ${error && !data && html`<${Failure} error=${error} again=${again} />`}
    ${!data
      ? !error && html`<${Waiting} what="the letters" />`
      : html`${data.items.length
            ? html`<${ItemRows} items=${data.items} tenant=${tenant} />`
            : html`<p class="quiet">${result ? `None is ${result}.` : "None is selected yet."}</p>`}
          <p class="pages">
            ${cursor && html`<a class="button" href=${page({})}>First</a>`}
            ${data.next && html`<a class="button" href=${page({ cursor: data.next })}>Next</a>`}
          </p>`}
  </section>`;
}

function ItemRows({ items, tenant }) {
  return html`<table class="rows">
    <thead>
      <tr>
        <th scope="col" class="count">No.</th>
        <th scope="col">Letter</th>
        <th scope="col">Result</th>
        <th scope="col">Why</th>
      </tr>
    </thead>
    <tbody>
      ${items.map(
        (item) => html`<tr key=${item.number}>
          <td data-label="No." class="count">${number(item.number)}</td>
          <td data-label="Letter"><a href=${go.href(`dead-letters/${item.job_id}`, { tenant })}><code>${item.job_id}</code></a></td>
          <td data-label="Result">${item.result ? html`<${Status} status=${item.result} />` : html`<span class="quiet">to come</span>`}</td>
          <td data-label="Why">${item.reason}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}
