// Which documents belong together, drawn: a column for each kind in the order of a trade, a line for each link.

import { html } from "htm/preact";
import { arranged, BOX, paths } from "./layout.js";
import { label, titleOf } from "./papers.js";
import { go } from "../place.js";

const LONGEST = 24; // characters of a line in a box
export const DRAWN = 60;

const clipped = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);

// `chosen`: the number of a link; `choose(number)`. Keyboards choose links in the list beside it.
export function Graph({ papers, links, tenant, current = null, chosen = null, choose = () => {} }) {
  const drawn = papers.slice(0, DRAWN);
  const found = arranged(drawn, links);
  const { columns, place, width, height } = found;
  return html`<div class="scrolled" tabindex="0" role="region" aria-label="Documents and links, drawn">
    <svg class="graph" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="group"
      aria-label=${`${drawn.length} documents and ${links.length} links; the same is listed below`}>
      ${columns.map((column) => html`<text class="kind" x=${place.get(column.papers[0].id).x} y="20">${label(column.type)}</text>`)}
      ${paths(links, found).map(
        (path, number) => path && html`<g class=${`link ${links[number].decided_by} ${chosen === number ? "chosen" : ""}`} onClick=${() => choose(number)}>
          <path class="wide" d=${path} /><path d=${path} />
        </g>`,
      )}
      ${drawn.map((paper) => html`<${Box} key=${paper.id} paper=${paper} at=${place.get(paper.id)} tenant=${tenant} isCurrent=${paper.id === current} />`)}
    </svg>
    ${papers.length > drawn.length && html`<p class="quiet">The first ${DRAWN} of ${papers.length} documents are drawn.</p>`}
  </div>`;
}

function Box({ paper, at, tenant, isCurrent }) {
  const lines = [paper.number ?? titleOf(paper), [paper.date, paper.total].filter(Boolean).join("  ")];
  return html`<a href=${go.href(`documents/${paper.id}`, { tenant })} aria-label=${titleOf(paper)} class=${isCurrent ? "current" : ""}
    aria-current=${isCurrent ? "true" : undefined}>
    <title>${`${titleOf(paper)} ${paper.seller ?? ""}`}</title>
    <rect x=${at.x} y=${at.y} width=${BOX.width} height=${BOX.height} rx="6" />
    <text class="name" x=${at.x + 12} y=${at.y + 23}>${clipped(lines[0])}</text>
    <text x=${at.x + 12} y=${at.y + 43}>${clipped(lines[1])}</text>
  </a>`;
}
