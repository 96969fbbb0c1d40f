// Clusters by status: the list of what needs a person. The filter is part of the address.

import { html } from "htm/preact";
import { ask, LIVE_SECONDS, useAnswer } from "../api.js";
import { Choice, useTyped } from "../fields.js";
import { useRowKeys } from "../keys.js";
import { Failure, Notice, Pages, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { short } from "../documents/papers.js";
import { tenantOf } from "../tenant.js";
import { ClusterStatus, STATUSES } from "./status.js";
import { number } from "../times.js";

const LONGEST_TEXT = 200;
const COUNTED = 1000; // the API counts no further
const ALL = "all";
const SORTS = [["oldest", "Oldest first"], ["newest", "Newest first"], ["amount", "Largest amount at stake"]];
const OPEN = ["exception", "needs-review", "disputed", "incomplete"];
const DAY = 86_400_000; // ms

function wantedOf(place) {
  const { query } = place;
  const status = query.get("status");
  return {
    tenant: tenantOf(place, ask.session),
    status: status === ALL || Object.hasOwn(STATUSES, status) ? status : "open",
    supplier: query.get("supplier") ?? "",
    number: query.get("number") ?? "",
    sort: SORTS.some(([sort]) => sort === query.get("sort")) ? query.get("sort") : "oldest",
    cursor: query.get("cursor") ?? "",
  };
}

// The address omits defaults.
const hrefOf = ({ status, sort, ...others }) =>
  go.href("clusters", { ...others, status: status === "open" ? "" : status, sort: sort === "oldest" ? "" : sort });

export function Clusters() {
  const wanted = wantedOf(usePlace());
  useTitle("Clusters");
  const { data, error, busy, again } = useAnswer(
    ["admin/clusters", { ...wanted, status: wanted.status === ALL ? "" : wanted.status }],
    { every: wanted.cursor ? 0 : LIVE_SECONDS },
  );
  return html`
    <h1>Clusters</h1>
    <p class="lead">An order with its deliveries and invoices. Open ones need a person or another document.</p>
    ${data && html`<${Counts} wanted=${wanted} counts=${data.counts} />`}
    <${Filter} wanted=${wanted} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Clusters" aria-busy=${busy}><${Rows} wanted=${wanted} data=${data} /></section>`
      : !error && html`<${Waiting} what="clusters" />`}
  `;
}

function Counts({ wanted, counts }) {
  const several = (statuses) => statuses.reduce((sum, status) => sum + counts[status], 0);
  const choices = [
    ["open", "Open", several(OPEN)],
    ...Object.entries(STATUSES).map(([status, title]) => [status, title, counts[status]]),
    [ALL, "All", several(Object.keys(STATUSES))],
  ];
  return html`<nav class="counts" aria-label="Status">
    ${choices.map(
      ([status, title, count]) => html`<a href=${hrefOf({ ...wanted, cursor: "", status })}
        aria-current=${wanted.status === status ? "true" : undefined}
        ><b>${count > COUNTED ? `${number(COUNTED)}+` : number(count)}</b> ${title}</a>`,
    )}
  </nav>`;
}

function Filter({ wanted }) {
  const [supplier, setSupplier] = useTyped(wanted.supplier);
  const [which, setWhich] = useTyped(wanted.number);
  const change = (more) => go.to(hrefOf({ ...wanted, cursor: "", supplier: supplier.trim(), number: which.trim(), ...more }));
  const submit = (event) => {
    event.preventDefault();
    change({});
  };
  return html`<form class="filter" role="search" aria-label="Clusters" onSubmit=${submit}>
    <label class="wide">Supplier begins with
      <input type="search" maxlength=${LONGEST_TEXT} value=${supplier} onInput=${(event) => setSupplier(event.target.value)} />
    </label>
    <label>Order or invoice number
      <input type="search" maxlength=${LONGEST_TEXT} value=${which} onInput=${(event) => setWhich(event.target.value)} />
    </label>
    <${Choice} title="Sort" value=${wanted.sort} options=${SORTS} choose=${(sort) => change({ sort })} />
    <div class="buttons">
      <button class="main" type="submit">Search</button>
      ${(wanted.supplier || wanted.number) && html`<a class="button" href=${hrefOf({ ...wanted, supplier: "", number: "", cursor: "" })}>Clear</a>`}
    </div>
  </form>`;
}

function Rows({ wanted, data }) {
  const { body } = useRowKeys("cluster");
  if (!data.clusters.length) {
    return html`<${Nothing} wanted=${wanted} />`;
  }
  return html`<table class="rows clusters">
      <thead>
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Order</th>
          <th scope="col">Supplier</th>
          <th scope="col" class="count">Ordered</th>
          <th scope="col" class="count">Delivered</th>
          <th scope="col" class="count">Billed</th>
          <th scope="col" class="count">At stake</th>
          <th scope="col">Age</th>
        </tr>
      </thead>
      <tbody ref=${body}>${data.clusters.map((one) => html`<${Row} key=${one.id} one=${one} />`)}</tbody>
    </table>
    <${Pages}
      newest=${wanted.cursor && hrefOf({ ...wanted, cursor: "" })}
      older=${data.next && hrefOf({ ...wanted, cursor: data.next })}
      names=${["First", "Next"]}
    />`;
}

const money = (amount) =>
  amount === null ? null : new Intl.NumberFormat("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(amount);

function Row({ one }) {
  const title = one.order_numbers.length ? one.order_numbers.join(", ") : `No order (${short(one.id)})`;
  return html`<tr>
    <td data-label="Status"><${ClusterStatus} status=${one.status} />
      ${one.is_being_computed && html`<span class="quiet file-name">being recomputed</span>`}</td>
    <td data-label="Order"><a href=${go.href(`clusters/${one.id}`, { tenant: one.tenant })}>${title}</a>
      <span class="quiet file-name"><span class="clip">${one.reason}</span></span></td>
    <td data-label="Supplier">${one.supplier ?? html`<span class="quiet">not read</span>`}</td>
    <td data-label="Ordered" class="count">${money(one.ordered)}</td>
    <td data-label="Delivered" class="count">${money(one.delivered)}</td>
    <td data-label="Billed" class="count">${money(one.billed)}</td>
    <td data-label="At stake" class="count"><b>${money(one.at_stake)}</b> <span class="quiet">${one.currency}</span></td>
    <td data-label="Age"><time datetime=${one.waiting_since} title=${new Date(one.waiting_since).toLocaleString("en-GB")}>${ageOf(one.waiting_since)}</time></td>
  </tr>`;
}

// Whole days since a moment.
function ageOf(at) {
  const days = Math.floor((Date.now() - new Date(at)) / DAY);
  return days < 1 ? "today" : days === 1 ? "1 day" : `${number(days)} days`;
}

function Nothing({ wanted }) {
  if (wanted.supplier || wanted.number || wanted.cursor) {
    return html`<${Notice} title="Nothing found">No cluster matches. Clear the search, or choose another status.<//>`;
  }
  if (wanted.status === "open") {
    return html`<${Notice} title="Nothing is open">Every order, delivery and invoice is matched. New ones appear here automatically.<//>`;
  }
  if (wanted.status === ALL) {
    return html`<${Notice} title="No clusters yet">Documents appear here once they are matched.<//>`;
  }
  return html`<${Notice} title="There are none">No cluster has this status.<//>`;
}
