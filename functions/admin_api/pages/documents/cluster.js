// Documents that belong together: drawn, why, line by line, and where they differ.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { LIVE_SECONDS, useAnswer } from "../api.js";
import { ClusterStatus } from "../clusters/status.js";
import { DifferenceDialog, MergeDialog, SplitDialog } from "../reviews/decisions.js";
import { Graph } from "./graph.js";
import { PaperLink, paperOf, Seller, short, titleOf } from "./papers.js";
import { Done, Failure, Notice, Pages, Status, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { may } from "../roles.js";
import { number, Time } from "../times.js";
import { bits, Waterfall } from "./waterfall.js";

const SHOWN = 60; // documents at once
const QUANTITIES = ["ordered", "delivered", "received", "rejected", "billed", "credited"];
const COMPARED = ["delivered", "received", "billed"]; // with the ordered quantity
const capital = (name) => `${name[0].toUpperCase()}${name.slice(1)}`;
const DECIDED_BY = { rules: "by rules", llm: "by a language model", person: "by a person" };

export function Cluster({ id }) {
  const place = usePlace();
  const cursor = place.query.get("cursor") ?? "";
  const { data, error, again } = useAnswer(
    [`admin/clusters/${encodeURIComponent(id)}`, { limit: SHOWN, cursor }], { every: cursor ? 0 : LIVE_SECONDS },
  );
  const cluster = data && { ...data, documents: [...data.contracts, ...data.documents].map(paperOf), own: new Set(data.documents.map((one) => one.id)) };
  const [asked, setAsked] = useState(null); // { what, paper } or { what, variance }
  const [said, setSaid] = useState(null);
  useTitle("Cluster");
  const tenant = cluster?.tenant ?? place.query.get("tenant");
  const back = html`<p><a href=${go.href("clusters", { tenant })}>All clusters</a></p>`;
  if (!cluster) {
    return html`${back}<h1>Cluster</h1>
      ${error?.status === 404
        ? html`<${Notice} title="There is no such cluster"
            >Its documents may belong elsewhere now, or it is of a tenant that you do not see. Look for one of its documents.<//
          >`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the cluster" />`}`;
  }
  const close = () => setAsked(null);
  const done = (sentence) => () => {
    close();
    setSaid(sentence);
    again();
  };
  const { comparison } = cluster;
  return html`${back}
    <h1>${cluster.status && html`<${ClusterStatus} status=${cluster.status} /> `}Cluster ${short(cluster.id)}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${said && html`<${Done}>${said}<//>`}
    <${Reasons} cluster=${cluster} />
    <${Links} cluster=${cluster} current=${place.query.get("document")} />
    <${Papers} cluster=${cluster} cursor=${cursor} ask=${setAsked} />
    ${comparison?.lines.length > 0 && html`<${Lines} lines=${comparison.lines} total=${comparison.lines_total} />`}
    ${comparison?.variances.length > 0 && html`<${Variances} cluster=${cluster} ask=${setAsked} />`}
    ${comparison?.remarks.length > 0 &&
    html`<section aria-labelledby="remarks"><h2 id="remarks">Remarks</h2>
      <ul>${comparison.remarks.map((remark) => html`<li>${remark}</li>`)}</ul></section>`}
    ${asked?.what === "split" && html`<${SplitDialog} paper=${asked.paper} close=${close} again=${again} done=${done(`${titleOf(asked.paper)} was split off.`)} />`}
    ${asked?.what === "merge" && html`<${MergeDialog} paper=${asked.paper} close=${close} again=${again} done=${done(`${titleOf(asked.paper)} was merged.`)} />`}
    ${asked?.variance && html`<${DifferenceDialog} cluster=${cluster.id} variance=${asked.variance} word=${asked.what} close=${close} again=${again}
      done=${done(asked.what === "accept" ? "The difference is accepted. The cluster is being recomputed." : "The difference is disputed. The cluster is being recomputed.")} />`}`;
}

function Reasons({ cluster }) {
  const told = cluster.error
    ? [`It could not be computed: ${cluster.error}`]
    : [...(cluster.comparison?.reasons ?? []), ...(cluster.is_being_computed ? [cluster.comparison ? "It is being recomputed." : "It is being computed."] : [])];
  return html`<div class="reasons">
    ${told.map((sentence) => html`<p>${sentence}</p>`)}
    ${!told.length && html`<p>${cluster.comparison ? "Nothing to compare." : "Not compared yet."}</p>`}
    ${cluster.computed_at && html`<p class="quiet">Computed on <${Time} at=${cluster.computed_at} both=${true} /></p>`}
  </div>`;
}

// The graph, and each link in words; of the chosen one, its evidence.
function Links({ cluster, current }) {
  const { documents, edges } = cluster;
  const [chosen, setChosen] = useState(null);
  const known = new Map(documents.map((paper) => [paper.id, paper]));
  const title = (id) => (known.has(id) ? titleOf(known.get(id)) : `document ${short(id)}`);
  return html`<section aria-labelledby="links">
    <h2 id="links">Documents and links</h2>
    <${Graph} papers=${documents} links=${edges} tenant=${cluster.tenant} current=${current} chosen=${chosen}
      choose=${(number) => setChosen(chosen === number ? null : number)} />
    ${edges.length
      ? html`<ul class="links">${edges.map(
          (edge, number) => html`<li key=${`${edge.document_a_id} ${edge.document_b_id}`} class=${chosen === number ? "chosen" : ""}>
            <button type="button" class="link" aria-expanded=${chosen === number} onClick=${() => setChosen(chosen === number ? null : number)}
              >${title(edge.document_a_id)} ↔ ${title(edge.document_b_id)}</button>
            <span class="quiet"> ${edge.confidence}, ${DECIDED_BY[edge.decided_by] ?? `by ${edge.decided_by}`}</span>
            ${chosen === number && html`<${Why} edge=${edge} caption=${`Evidence for ${title(edge.document_a_id)} and ${title(edge.document_b_id)}`} />`}
          </li>`,
        )}</ul>`
      : html`<p class="quiet">It is alone: nothing was found that it belongs to.</p>`}
    <${More} shown=${edges.length} total=${cluster.edges_total} what="links" />
  </section>`;
}

function Why({ edge, caption }) {
  return html`<div class="why">
    ${edge.reasoning && html`<p>${edge.reasoning}</p>`}
    ${edge.evidence?.length > 0
      ? html`<${Waterfall} evidence=${edge.evidence} total=${edge.evidence.at(-1).total} caption=${caption} />`
      : html`<p class="quiet">${bits(edge.score)} bits in all.</p>`}
  </div>`;
}

function Papers({ cluster, cursor, ask }) {
  const decides = may("operator");
  return html`<section aria-labelledby="documents">
    <h2 id="documents">Documents</h2>
    <table class="rows">
      <thead>
        <tr>
          <th scope="col">Document</th>
          <th scope="col">Seller</th>
          <th scope="col">Date</th>
          <th scope="col" class="count">Total</th>
          <th scope="col">File</th>
          ${decides && html`<th scope="col"><span class="unseen">Decide</span></th>`}
        </tr>
      </thead>
      <tbody>
        ${cluster.documents.map(
          (paper) => html`<tr key=${paper.id}>
            <td data-label="Document"><${PaperLink} paper=${paper} tenant=${cluster.tenant} /></td>
            <td data-label="Seller"><${Seller} paper=${paper} /></td>
            <td data-label="Date">${paper.date}</td>
            <td data-label="Total" class="count">${paper.total}</td>
            <td data-label="File" class="file-name">${paper.file}</td>
            ${decides && html`<td class="nowrap">
              ${cluster.own.has(paper.id) && cluster.documents_total > 1 && html`<button type="button" class="small" aria-label=${`${titleOf(paper)} does not belong here`}
                onClick=${() => ask({ what: "split", paper })}>Does not belong here</button>`}
              <button type="button" class="small" aria-label=${`${titleOf(paper)} belongs to another document`}
                onClick=${() => ask({ what: "merge", paper })}>Merge…</button></td>`}
          </tr>`,
        )}
      </tbody>
    </table>
    <${More} shown=${cluster.own.size} total=${cluster.documents_total} what="documents" />
    <${Pages}
      newest=${cursor && go.href(`clusters/${cluster.id}`, { tenant: cluster.tenant })}
      older=${cluster.next && go.href(`clusters/${cluster.id}`, { tenant: cluster.tenant, cursor: cluster.next })}
      names=${["First", "Next"]}
    />
  </section>`;
}

// The price that a line is billed at for one unit; nothing where bills differ.
function billedAt(line) {
  const prices = new Set(line.parts.filter((part) => part.role === "billed" && part.unit_price).map((part) => part.unit_price));
  return prices.size === 1 ? [...prices][0] : "";
}

function Lines({ lines, total }) {
  const shown = QUANTITIES.filter((name) => lines.some((line) => line[name] !== null));
  const differ = lines.some((line) => billedAt(line) && billedAt(line) !== line.price);
  const money = (price, line) => price && `${price} ${line.currency ?? ""}`;
  return html`<section aria-labelledby="lines">
    <h2 id="lines">Lines, side by side</h2>
    <div class="scrolled" tabindex="0" role="region" aria-label="Table of lines">
      <table class="rows lines">
        <thead>
          <tr>
            <th scope="col">Line</th><th scope="col">Article</th><th scope="col">Unit</th>
            ${shown.map((name) => html`<th scope="col" class="count">${capital(name)}</th>`)}
            <th scope="col" class="count">Price</th>
            ${differ && html`<th scope="col" class="count">Billed at</th>`}
          </tr>
        </thead>
        <tbody>
          ${lines.map((line) => {
            const apart = (name) => COMPARED.includes(name) && ![line[name], line.ordered].includes(null) && line[name] !== line.ordered;
            const billed = billedAt(line);
            return html`<tr>
              <td data-label="Line">${line.line}</td>
              <td data-label="Article">${[line.article, line.description].filter(Boolean).join(" ")}</td>
              <td data-label="Unit">${line.unit}</td>
              ${shown.map((name) => html`<td data-label=${capital(name)} class="count">${apart(name) ? html`<${Apart}>${line[name]}<//>` : line[name]}</td>`)}
              <td data-label="Price" class="count">${money(line.price, line)}</td>
              ${differ && html`<td data-label="Billed at" class="count">${billed && billed !== line.price ? html`<${Apart}>${money(billed, line)}<//>` : money(billed, line)}</td>`}
            </tr>`;
          })}
        </tbody>
      </table>
    </div>
    <${More} shown=${lines.length} total=${total} what="lines" />
  </section>`;
}

function More({ shown, total, what }) {
  return total > shown && html`<p class="quiet">${number(shown)} of ${number(total)} ${what} are shown.</p>`;
}

const Apart = ({ children }) => html`<b class="apart">${children}<span class="unseen"> (differs)</span></b>`;

function Variances({ cluster, ask }) {
  return html`<section aria-labelledby="variances">
    <h2 id="variances">Differences</h2>
    <ul class="variances">${cluster.comparison.variances.map((variance) => html`<${Variance} variance=${variance} ask=${ask} />`)}</ul>
    <${More} shown=${cluster.comparison.variances.length} total=${cluster.comparison.variances_total} what="differences" />
  </section>`;
}

function stateOf(variance) {
  if (variance.settled_by) {
    return [variance.decision ?? "settled", variance.settled_by];
  }
  if (variance.within_tolerance) {
    return ["tolerated", "Within tolerance."];
  }
  return variance.awaits ? ["waiting", variance.awaits] : [variance.decision ?? "open", ""];
}

function Variance({ variance, ask }) {
  const [state, more] = stateOf(variance);
  const canBeSaid = variance.tolerance !== null && variance.expected !== null && variance.actual !== null;
  return html`<li>
    <p><${Status} status=${state} /> <b>${variance.code.replaceAll("_", " ")}</b></p>
    <p>${variance.sentence} ${more}</p>
    ${canBeSaid && may("operator") &&
    html`<p class="buttons">
      ${!variance.settled_by && html`<button type="button" onClick=${() => ask({ what: "accept", variance })}>Accept</button>`}
      ${variance.decision !== "disputed" && html`<button type="button" onClick=${() => ask({ what: "dispute", variance })}>Dispute</button>`}
    </p>`}
  </li>`;
}
