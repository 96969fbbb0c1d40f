// Documents: type, parties, total and progress. The filter is in the address.

import { html } from "htm/preact";
import { ask, LIVE_SECONDS, useAnswer } from "../api.js";
import { AddDocuments } from "./drop.js";
import { ANY, Choice, Days, useTyped } from "../fields.js";
import { KINDS, label, paperOf, Seller, titleOf } from "./papers.js";
import { Failure, Notice, Pages, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { ClusterStatus } from "../clusters/status.js";
import { Furthest, HOW_FAR, isDone } from "./stages.js";
import { tenantOf } from "../tenant.js";
import { startOfDay, Time } from "../times.js";

const LONGEST_TEXT = 200;
const TYPES = [...KINDS, "other"];

function wantedOf(place) {
  const { query } = place;
  return {
    tenant: tenantOf(place, ask.session),
    type: TYPES.includes(query.get("type")) ? query.get("type") : "",
    state: HOW_FAR.some(([which]) => which === query.get("state")) ? query.get("state") : "",
    text: query.get("text") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

export function Documents() {
  const wanted = wantedOf(usePlace());
  const { from, to, ...others } = wanted;
  useTitle("Documents");
  const { data, error, busy, again } = useAnswer(
    ["admin/documents", { ...others, from: startOfDay(from), to: startOfDay(to, 1) }],
    { every: wanted.cursor ? 0 : LIVE_SECONDS },
  );
  return html`
    <div class="heading"><h1>Documents</h1><${AddDocuments} tenant=${wanted.tenant} /></div>
    <p class="lead">Invoices, orders, delivery notes and related documents, newest first. Drop files anywhere to upload them.</p>
    <${Filter} wanted=${wanted} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Documents" aria-busy=${busy}><${Rows} wanted=${wanted} data=${data} /></section>`
      : !error && html`<${Waiting} what="documents" />`}
  `;
}

function Filter({ wanted }) {
  const [text, setText] = useTyped(wanted.text);
  const change = (more) => go("documents", { ...wanted, cursor: "", ...more });
  const narrowed = wanted.text || wanted.type || wanted.state || wanted.from || wanted.to;
  const submit = (event) => {
    event.preventDefault();
    change({ text: text.trim() });
  };
  return html`<form class="filter" role="search" aria-label="Documents" onSubmit=${submit}>
    <label class="wide">Number, firm or file
      <input type="search" maxlength=${LONGEST_TEXT} value=${text} onInput=${(event) => setText(event.target.value)} />
    </label>
    <${Choice} title="Kind" value=${wanted.type} options=${[ANY, ...TYPES.map((type) => [type, label(type)])]} choose=${(type) => change({ type })} />
    <${Choice} title="How far" value=${wanted.state} options=${[ANY, ...HOW_FAR]} choose=${(state) => change({ state })} />
    <${Days} wanted=${wanted} change=${change} />
    <div class="buttons">
      <button class="main" type="submit">Search</button>
      ${narrowed && html`<a class="button" href=${go.href("documents", { tenant: wanted.tenant })}>Clear</a>`}
    </div>
  </form>`;
}

function Rows({ wanted, data }) {
  if (!data.documents.length) {
    const narrowed = wanted.text || wanted.type || wanted.state || wanted.from || wanted.to || wanted.cursor;
    if (data.next) {
      return html`<p class="notice">Nothing on this page of the search. <a href=${go.href("documents", { ...wanted, cursor: data.next })}>Look among older documents</a></p>`;
    }
    return narrowed
      ? html`<${Notice} title="Nothing found">No document is like that. Clear the search, or ask for others.<//>`
      : html`<${Notice} title="No documents yet"
          >Drop files on this page, send them to the tenant’s address by mail, or use <code>counterfoil ingest</code>.<//
        >`;
  }
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Document</th>
          <th scope="col">Seller</th>
          <th scope="col">Date</th>
          <th scope="col" class="count">Total</th>
          <th scope="col">State</th>
          <th scope="col">Belongs to</th>
          <th scope="col">Came in</th>
        </tr>
      </thead>
      <tbody>${data.documents.map((one) => html`<${Row} key=${one.id} one=${paperOf(one)} tenant=${wanted.tenant} />`)}</tbody>
    </table>
    <${Pages}
      newest=${wanted.cursor && go.href("documents", { ...wanted, cursor: "" })}
      older=${data.next && go.href("documents", { ...wanted, cursor: data.next })}
    />`;
}

export function Row({ one, tenant }) {
  const path = one.dead_letter ? `dead-letters/${one.dead_letter}` : `documents/${one.id}`;
  return html`<tr>
    <td data-label="Document"><a href=${go.href(path, { tenant })}>${one.type ? titleOf(one) : one.file}</a>
      ${one.type && html`<span class="quiet file-name">${one.file}</span>`}</td>
    <td data-label="Seller"><${Seller} paper=${one} /></td>
    <td data-label="Date" class="when">${one.date}</td>
    <td data-label="Total" class="count">${one.total}</td>
    <td data-label="State">${one.cluster_status && isDone(one.stages) ? html`<${ClusterStatus} status=${one.cluster_status} />` : html`<${Furthest} stages=${one.stages} />`}</td>
    <td data-label="Belongs to" class="when">${one.cluster_id && html`<a href=${go.href(`clusters/${one.cluster_id}`, { tenant, document: one.id })}>its cluster</a>`}</td>
    <td data-label="Came in"><${Time} at=${one.received_at} /></td>
  </tr>`;
}
