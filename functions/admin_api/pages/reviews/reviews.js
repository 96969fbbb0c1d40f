// Review queue: ambiguous matches, oldest first.

import { html } from "htm/preact";
import { ask, LIVE_SECONDS, useAnswer } from "../api.js";
import { Told } from "./decisions.js";
import { ANY, Choice } from "../fields.js";
import { useRowKeys } from "../keys.js";
import { KINDS, label, Seller, titleOf } from "../documents/papers.js";
import { Failure, Notice, Pages, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { tenantOf } from "../tenant.js";
import { Time } from "../times.js";

const SHOWN_CANDIDATES = 3;
const STATES = { open: "in doubt", decided: "decided by a person", gone: "in doubt no more" };
const CHANCES = [ANY, ["0.5", "50 % or more"], ["0.8", "80 % or more"], ["0.9", "90 % or more"]];

export function queueOf(place) {
  const { query } = place;
  return {
    tenant: tenantOf(place, ask.session),
    state: query.get("state") in STATES ? query.get("state") : "open",
    kind: KINDS.includes(query.get("kind")) ? query.get("kind") : "",
    min_chance: CHANCES.some(([chance]) => chance === query.get("min_chance")) ? query.get("min_chance") : "",
    cursor: query.get("cursor") ?? "",
  };
}

export const percent = (chance) => `${Math.round(chance * 100)} %`;

// Link back to the queue, without defaults.
export const hrefOfQueue = ({ state, ...others }, path = "reviews") =>
  go.href(path, { ...others, state: state === "open" ? "" : state });

export function Reviews() {
  const wanted = queueOf(usePlace());
  useTitle("Review");
  const { data, error, busy, again } = useAnswer(["admin/reviews", wanted], { every: wanted.cursor ? 0 : LIVE_SECONDS });
  return html`
    <h1>Review</h1>
    <p class="lead">Documents with ambiguous matches. A reviewer’s decision is permanent.</p>
    <${Told} />
    <${Filter} wanted=${wanted} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Documents in doubt" aria-busy=${busy}><${Queue} wanted=${wanted} data=${data} /></section>`
      : !error && html`<${Waiting} what="documents in doubt" />`}
  `;
}

function Filter({ wanted }) {
  const change = (more) => go.to(hrefOfQueue({ ...wanted, cursor: "", ...more }));
  const narrowed = wanted.kind || wanted.min_chance || wanted.state !== "open";
  return html`<form class="filter" role="search" aria-label="Documents in doubt" onSubmit=${(event) => event.preventDefault()}>
    <${Choice} title="State" value=${wanted.state} options=${Object.entries(STATES)} choose=${(state) => change({ state })} />
    <${Choice} title="Kind" value=${wanted.kind} options=${[ANY, ...KINDS.map((kind) => [kind, label(kind)])]} choose=${(kind) => change({ kind })} />
    <${Choice} title="Chance of the likeliest" value=${wanted.min_chance} options=${CHANCES} choose=${(min_chance) => change({ min_chance })} />
    ${narrowed &&
    html`<div class="buttons"><a class="button" href=${go.href("reviews", { tenant: wanted.tenant })}>Clear</a></div>`}
  </form>`;
}

function Queue({ wanted, data }) {
  const { body } = useRowKeys("document");
  if (!data.reviews.length) {
    return html`<${Nothing} wanted=${wanted} />`;
  }
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Document</th>
          <th scope="col">Seller</th>
          <th scope="col" class="count">Total</th>
          <th scope="col">May belong to</th>
          <th scope="col" class="count">Chance</th>
          <th scope="col">Since</th>
        </tr>
      </thead>
      <tbody ref=${body}>${data.reviews.map((review) => html`<${Row} key=${review.id} review=${review} wanted=${wanted} />`)}</tbody>
    </table>
    <${Pages}
      newest=${wanted.cursor && hrefOfQueue({ ...wanted, cursor: "" })}
      older=${data.next && hrefOfQueue({ ...wanted, cursor: data.next })}
      names=${["First", "Next"]}
    />`;
}

export function Row({ review, wanted }) {
  return html`<tr>
    <td data-label="Document"><a href=${hrefOfQueue({ ...wanted, cursor: "" }, `reviews/${review.id}`)}
      >${titleOf(review.document)}</a></td>
    <td data-label="Seller"><${Seller} paper=${review.document} /></td>
    <td data-label="Total" class="count">${review.document.total}</td>
    <td data-label="May belong to">${review.doubts.map(inShort).join("; ")}</td>
    <td data-label="Chance" class="count">${percent(review.chance)}</td>
    <td data-label="Since"><${Time} at=${review.opened_at} /></td>
  </tr>`;
}

function inShort({ candidates, count }) {
  const some = candidates.slice(0, SHOWN_CANDIDATES).map((candidate) => titleOf(candidate.document));
  const left = (count ?? candidates.length) - some.length;
  return [...some, ...(left > 0 ? [`${left} more`] : [])].join(" or ");
}

function Nothing({ wanted }) {
  if (wanted.kind || wanted.min_chance || wanted.cursor) {
    return html`<${Notice} title="Nothing found">No document is like that. Clear the filter, or ask for another state.<//>`;
  }
  if (wanted.state === "open") {
    return html`<${Notice} title="Nothing is in doubt"
      >All matches are certain or decided. New ambiguous matches appear here automatically.<//
    >`;
  }
  return html`<${Notice} title="There are none">Nothing that was in doubt is ${STATES[wanted.state]}.<//>`;
}
