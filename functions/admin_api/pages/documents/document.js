// One document: its pages next to its fields, its progress, its matches and its history.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { LEADING_SECONDS, LIVE_SECONDS, STEADY_SECONDS, useAnswer } from "../api.js";
import { useImage } from "./image.js";
import { useKeys } from "../keys.js";
import { PaperLink, paperOf, short, titleOf } from "./papers.js";
import { FactList, Failure, Id, Notice, Status, useTitle, Waiting, Who } from "../parts.js";
import { go, usePlace } from "../place.js";
import { Fields } from "./read.js";
import { Stages } from "./stages.js";
import { number, Time } from "../times.js";
import { Waterfall } from "./waterfall.js";


export function Document({ id }) {
  const place = usePlace();
  const path = `admin/documents/${encodeURIComponent(id)}`;
  const { data, error, again } = useAnswer([path, {}], { every: LEADING_SECONDS });
  const [page, setPage] = useState(1);
  const image = useImage(`${path}/pages/${page}`);
  const found = data && paperOf(data);
  const title = found && (found.type ? titleOf(found) : found.file);
  useTitle(title ?? "Document");
  const tenant = found?.tenant ?? place.query.get("tenant");
  const back = html`<p><a href=${go.href("documents", { tenant })}>All documents</a></p>`;
  if (!found) {
    return html`${back}<h1>Document</h1>
      ${error?.status === 404
        ? html`<${Notice} title="There is no such document">It may have been deleted, or belong to a tenant that you do not see.<//>`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the document" />`}`;
  }
  const turn = (to) => setPage(Math.min(Math.max(to, 1), image.pages ?? 1));
  return html`${back}
    <h1>${title}</h1>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    <${Stages} stages=${found.stages} />
    <${Facts} found=${found} tenant=${tenant} />
    <div class="beside">
      <${PageImage} image=${image} page=${page} turn=${turn} title=${title} />
      <${Fields} fields=${found.fields} lines=${found.lines} total=${found.lines_total} turn=${image.pages > 1 ? turn : null} />
    </div>
    <${Partners} found=${found} tenant=${tenant} />
    <${Timeline} path=${`${path}/timeline`} version=${data} found=${found} tenant=${tenant} />`;
}

function Facts({ found, tenant }) {
  const { source } = found;
  const facts = [
    ["Came in", html`<${Time} at=${found.received_at} both=${true} />`],
    ["By", [source.kind, source.sender, source.subject].filter(Boolean).join(", ")],
    ["File", found.file],
    ["Document", html`<${Id} value=${found.id} />`],
  ];
  if (source.kind === "mail") {
    const results = [["SPF", source.spf], ["DKIM", source.dkim], ["DMARC", source.dmarc]];
    const stated = results.filter(([, result]) => result).map(([name, result]) => `${name} ${result}`);
    facts.splice(2, 0, ["Sender check", stated.join(", ") || "no verdict"]);
  }
  if (found.seen_again) {
    facts.push(["Seen again", html`${number(found.seen_again)} times, last <${Time} at=${found.last_seen_at} />`]);
  }
  if (found.parent_id) {
    const of = html`<a href=${go.href(`documents/${found.parent_id}`, { tenant })}>a file of several documents</a>`;
    facts.push(["Cut out of", html`${of}, pages ${found.first_page} to ${found.last_page}`]);
  }
  if (found.parts.length) {
    facts.push(["Cut into", found.parts.map((part) => html`<a href=${go.href(`documents/${part.id}`, { tenant })}>pages ${part.first_page} to ${part.last_page}</a> `)]);
  }
  if (found.cluster_id) {
    const href = go.href(`clusters/${found.cluster_id}`, { tenant, document: found.id });
    facts.push(["Belongs to", html`<a href=${href}>its cluster</a>`]);
  }
  if (found.review) {
    facts.push(["Review", html`<a href=${go.href(`reviews/${found.id}`, { tenant })}><${Status} status=${found.review} /></a>`]);
  }
  for (const letter of found.dead_letters) {
    facts.push(["Dead letter", html`<a href=${go.href(`dead-letters/${letter.job_id}`, { tenant })}>of ${letter.worker}</a> <${Status} status=${letter.status} />`]);
  }
  if (found.missing.length) {
    facts.push(["Not read", html`<span class="unsure">${found.missing.join(", ")}</span>`]);
  }
  return html`<${FactList} facts=${facts} />`;
}

// A page at a time, as wide as there is room, or as large as it is.
function PageImage({ image, page, turn, title }) {
  const { url, pages, error } = image;
  const [isLarge, setIsLarge] = useState(false);
  useKeys([
    { key: "n", what: "Next page", act: () => turn(page + 1) },
    { key: "p", what: "Page before", act: () => turn(page - 1) },
    { key: "z", what: "Page large or small", act: () => setIsLarge((before) => !before) },
  ]);
  return html`<section class="image" aria-labelledby="pages">
    <h2 id="pages">Page${pages && ` ${number(page)} of ${number(pages)}`}</h2>
    ${pages &&
    html`<p class="buttons">
      ${pages > 1 &&
      html`<button type="button" disabled=${page === 1} onClick=${() => turn(page - 1)}>Before</button>
        <button type="button" disabled=${page === pages} onClick=${() => turn(page + 1)}>Next</button>`}
      <button type="button" aria-pressed=${isLarge} onClick=${() => setIsLarge(!isLarge)}>Large</button>
    </p>`}
    ${error
      ? html`<p class="no-image">${error.message}</p>`
      : url
        ? html`<div class=${`page ${isLarge ? "large" : ""}`} tabindex="0" role="region" aria-label="Image of the page"
            ><img src=${url} alt=${`Page ${page} of ${title}`} /></div>`
        : html`<p class="no-image waiting" role="status">Loading the page…</p>`}
  </section>`;
}

// Its matches, with the evidence of the open one.
function Partners({ found, tenant }) {
  if (!found.edges.length) {
    return null;
  }
  return html`<section aria-labelledby="partners">
    <h2 id="partners">Belongs together with</h2>
    <ul class="links">
      ${found.edges.map(
        (edge) => html`<li key=${edge.document.id}>
          <${PaperLink} paper=${edge.document} tenant=${tenant} /> <span class="quiet">${edge.confidence}, ${edge.decided_by}</span>
          <details class="why"><summary>Why</summary><p>${edge.reasoning}</p>
            ${edge.evidence.length > 0 && html`<${Waterfall} evidence=${edge.evidence} total=${edge.evidence.at(-1).total} caption=${`Evidence for ${titleOf(edge.document)}`} />`}
          </details>
        </li>`,
      )}
    </ul>
    ${found.edges_total > found.edges.length && html`<p class="quiet">The ${number(found.edges.length)} strongest of ${number(found.edges_total)} links are shown.</p>`}
  </section>`;
}

// Requested again when the document changes, and for attempts in progress.
function Timeline({ path, version, found, tenant }) {
  const isTried = found.stages.some(({ state }) => state === "pending" || state === "in-progress");
  const { data, error, again } = useAnswer([path, {}], { every: isTried ? LIVE_SECONDS : STEADY_SECONDS, version });
  const known = new Map(found.edges.map((edge) => [edge.document.id, edge.document]));
  return html`<section aria-labelledby="timeline">
    <h2 id="timeline">What happened</h2>
    ${error && !data
      ? html`<${Failure} error=${error} again=${again} />`
      : !data
        ? html`<${Waiting} what="the history" />`
        : html`<ol class="timeline">${data.events.map((event) => html`<${Happened} event=${event} known=${known} tenant=${tenant} />`)}</ol>`}
  </section>`;
}

const KINDS = {
  arrival: "File", work: "Work", try: "Try", running: "Try", due: "Try", letter: "Dead letter", question: "Language model",
  link: "Link", review: "Review", decision: "Decision", result: "Result",
};

function Happened({ event, known, tenant }) {
  const seconds = event.began_at ? (new Date(event.at) - new Date(event.began_at)) / 1000 : null;
  const which = event.kind === "try" && event.number ? `Try ${event.number}` : KINDS[event.kind] ?? event.kind;
  const other = event.other && (known.get(event.other) ?? { id: event.other, type: null });
  return html`<li class=${event.kind}>
    <p><b>${which}: ${event.kind === "due" ? "put off until then" : event.kind === "running" ? "under way" : event.what}</b>
      ${other && html` <a href=${go.href(`documents/${other.id}`, { tenant })}>${other.type ? titleOf(other) : `document ${short(other.id)}`}</a>`}
      ${event.job_id && html` <a href=${go.href(`dead-letters/${event.job_id}`, { tenant })}>the letter</a>`}
      <span class="quiet"> <${Time} at=${event.at} />, <${Who} value=${event.who} />${seconds !== null && `, after ${seconds.toFixed(seconds < 10 ? 1 : 0)} s`}</span></p>
    ${event.error && html`<p class="error">${event.error_type && `${event.error_type}: `}${event.error}</p>`}
    ${(event.detail?.reason || event.detail?.reasoning) && html`<p class="quiet">${event.detail.reason ?? event.detail.reasoning}</p>`}
    ${event.next_attempt_at && html`<p class="quiet">Next attempt scheduled at <${Time} at=${event.next_attempt_at} /></p>`}
  </li>`;
}
