// One ambiguous document next to its candidates: evidence and decisions, also by keyboard.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, change, LIVE_SECONDS, useAnswer } from "../api.js";
import { NoteDialog } from "../dialog.js";
import { useKeys } from "../keys.js";
import { allTheSame, anew, MergeDialog, sayNext, Told, useSuperseded } from "./decisions.js";
import { PaperFacts, PaperLink, short, titleOf } from "../documents/papers.js";
import { Failure, Notice, Status, useTitle, Waiting, Who } from "../parts.js";
import { go, usePlace } from "../place.js";
import { hrefOfQueue, percent, queueOf } from "./reviews.js";
import { may } from "../roles.js";
import { Time } from "../times.js";
import { spanOf, Waterfall } from "../documents/waterfall.js";

const QUEUE_SHOWN = 100;
const KEYS = 9; // of candidates
const VERBS = { confirm: ["Confirm", "confirmed"], reject: ["Reject", "rejected"] };

// Those before and after a document in the queue that it was opened from.
function useNeighbours(queue, id) {
  const { data } = useAnswer(["admin/reviews", { ...queue, cursor: "", limit: QUEUE_SHOWN }]);
  const ids = (data?.reviews ?? []).map((review) => review.id);
  const at = ids.indexOf(id);
  return {
    next: at < 0 ? ids[0] : ids[at + 1],
    previous: at > 0 ? ids[at - 1] : undefined,
    where: at < 0 ? null : `${at + 1} of ${data.next ? `more than ${ids.length}` : ids.length}`,
  };
}

export function Review({ id }) {
  const queue = { ...queueOf(usePlace()), cursor: "" };
  const path = `admin/reviews/${encodeURIComponent(id)}`;
  const { data: review, error, again } = useAnswer([path, {}], { every: LIVE_SECONDS });
  const near = useNeighbours(queue, id);
  const to = (other) => other && go.to(hrefOfQueue(queue, `reviews/${other}`));
  useKeys([
    { key: "j", what: "Next document", act: () => to(near.next) },
    { key: "k", what: "Previous document", act: () => to(near.previous) },
    { key: "u", what: "Back to the queue", act: () => go.to(hrefOfQueue(queue)) },
  ]);
  useTitle(review ? `${titleOf(review.document)} · Review` : "Review");
  const way = html`<${Way} queue=${queue} near=${near} />`;
  if (!review) {
    return html`${way}<h1>Review</h1>
      ${error?.status === 404
        ? html`<${Notice} title="This document was never in doubt"
            >It does not exist, or belongs to a tenant that you cannot see.<//
          >`
        : error
          ? html`<${Failure} error=${error} again=${again} />`
          : html`<${Waiting} what="the document" />`}`;
  }
  const decided = (sentence) => {
    sayNext(sentence, hrefOfQueue(queue, `reviews/${id}`));
    go.to(near.next ? hrefOfQueue(queue, `reviews/${near.next}`) : hrefOfQueue(queue));
  };
  return html`${way}
    <${Told} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    <h1><${Status} status=${review.state} /> ${titleOf(review.document)}</h1>
    <p class="quiet">In doubt since <${Time} at=${review.opened_at} both=${true} /></p>
    <${Question} review=${review} decided=${decided} again=${again} />
    <${Decisions} review=${review} />`;
}

function Way({ queue, near }) {
  const link = (id, text) => id && html`<a href=${hrefOfQueue(queue, `reviews/${id}`)}>${text}</a>`;
  return html`<nav class="way" aria-label="Queue">
    <a href=${hrefOfQueue(queue)}>All in doubt</a>
    ${near.where && html`<span class="quiet">${near.where}</span>`}
    ${link(near.previous, "Previous")} ${link(near.next, "Next")}
  </nav>`;
}

function Question({ review, decided, again }) {
  const candidates = review.doubts.flatMap((doubt) => doubt.candidates);
  const [chosen, setChosen] = useState(0);
  const [asked, setAsked] = useState(null); // { act, others: [candidate] }
  const at = Math.min(chosen, candidates.length - 1);
  const decides = may("operator");
  const begin = (act, others) => others.length && setAsked({ act, others });
  const choices = candidates.slice(0, KEYS).map((candidate, place) => ({
    key: String(place + 1), what: `Choose ${titleOf(candidate.document)}`, act: () => setChosen(place),
  }));
  const deciding = [
    { key: "c", what: "Confirm the chosen one", act: () => begin("confirm", candidates.slice(at, at + 1)) },
    { key: "r", what: "Reject the chosen one", act: () => begin("reject", candidates.slice(at, at + 1)) },
    { key: "a", what: "Reject all of them", act: () => begin("reject", candidates) },
    { key: "m", what: "Merge with another document", act: () => setAsked({ act: "merge" }) },
  ];
  useKeys([...choices, ...(decides ? deciding : [])]);
  const close = () => setAsked(null);
  let number = 0;
  return html`
    ${review.doubts.map(
      (doubt) => html`<section class="doubt" aria-label="Doubt">
        <p class="reason">${[doubt.reason || whyOf(doubt), doubt.unasked].filter(Boolean).join(" ")}</p>
        <div class="side-by-side">
          <article class="card">
            <h2><span class="of">This</span> <${PaperLink} paper=${review.document} tenant=${review.tenant} /></h2>
            <${PaperFacts} paper=${review.document} />
          </article>
          ${doubt.candidates.map((candidate) => {
            const mine = number++;
            return html`<${CandidateCard} key=${candidate.document.id} candidate=${candidate} number=${mine} review=${review}
              span=${spanOf(doubt.candidates.map((one) => one.evidence))} isChosen=${mine === at} choose=${() => setChosen(mine)}
              begin=${(act) => begin(act, [candidate])} decides=${decides} />`;
          })}
        </div>
        ${doubt.others?.length > 0 && html`<p class="quiet">${doubt.others.length} more fit less.</p>`}
      </section>`,
    )}
    ${decides
      ? html`<p class="buttons">
          ${candidates.length > 1 && html`<button type="button" onClick=${() => begin("reject", candidates)}>Reject all</button>`}
          <button type="button" onClick=${() => setAsked({ act: "merge" })}>Belongs to another document…</button>
        </p>`
      : html`<p class="quiet">Deciding requires the operator role.</p>`}
    ${asked?.act === "merge"
      ? html`<${MergeDialog} paper=${review.document} close=${close} again=${again}
          done=${() => (close(), decided(`${titleOf(review.document)} was merged.`))} />`
      : asked && html`<${DecideDialog} asked=${asked} review=${review} close=${close} again=${again}
          done=${(sentence) => (close(), decided(sentence))} />`}
  `;
}

const whyOf = (doubt) =>
  doubt.number
    ? `It names ${doubt.number}, but it is not certain that the document with that number fits.`
    : "The best candidate is not certain.";

function CandidateCard({ candidate, number, review, span, isChosen, choose, begin, decides }) {
  const paper = candidate.document;
  const last = lastWord(review, paper.id);
  return html`<article class="card candidate" aria-current=${isChosen ? "true" : undefined} onFocusIn=${choose} onClick=${choose}>
    <h2><kbd>${number + 1}</kbd> <${PaperLink} paper=${paper} tenant=${review.tenant} />
      <span class="chance">${percent(candidate.chance)}</span></h2>
    <${PaperFacts} paper=${paper} beside=${review.document} />
    <${Waterfall} evidence=${candidate.evidence} span=${span} total=${candidate.bits} caption=${`Evidence for ${titleOf(paper)}`} />
    ${last && html`<p><${Status} status=${last.verdict} /> <span class="quiet">by <${Who} value=${last.by} />, <${Time} at=${last.at} /></span></p>`}
    ${decides &&
    html`<p class="buttons">
      ${last?.verdict !== "confirmed" && html`<button type="button" class=${isChosen ? "main" : ""} onClick=${() => begin("confirm")}>Confirm</button>`}
      ${last?.verdict !== "rejected" && html`<button type="button" onClick=${() => begin("reject")}>Reject</button>`}
    </p>`}
  </article>`;
}

// Last decision about the document and another one; empty without one.
const lastWord = (review, other) => review.decisions.findLast((one) => one.documents.includes(other)) ?? null;

function DecideDialog({ asked, review, done, close, again }) {
  const { act, others } = asked;
  const [verb, was] = VERBS[act];
  const before = others.map((one) => lastWord(review, one.document.id)).filter(Boolean);
  const superseded = useSuperseded(before.map((one) => one.id));
  const names = others.map((one) => titleOf(one.document)).join(", ");
  const which = act === "confirm" ? { document: others[0].document.id } : { documents: others.map((one) => one.document.id) };
  const send = (reason) =>
    anew(again, async () => {
      await change("POST", `admin/reviews/${review.id}/${act}`, {
        ...which, reason: reason || null, supersedes: superseded.ids,
      });
      done(`${titleOf(review.document)}: ${was} ${names}.`);
    }, superseded.note);
  return html`<${NoteDialog} title=${act === "confirm" ? "They belong together" : "They do not belong together"}
    verb=${allTheSame(verb, superseded)} label="Why" needed=${false} act=${send} close=${close}>
    <p>${titleOf(review.document)} ${act === "confirm" ? "belongs to" : "does not belong to"} ${names}.</p>
    ${before.map((one) => html`<p class="quiet">Replaces: <${Who} value=${one.by} /> ${one.verdict} this on <${Time} at=${one.at} />.</p>`)}
    <p class="quiet">It is permanent until someone decides otherwise. Your name is stored with it.</p>
  <//>`;
}

function Decisions({ review }) {
  if (!review.decisions.length) {
    return null;
  }
  const known = new Map(review.doubts.flatMap((doubt) => doubt.candidates.map((one) => [one.document.id, one.document])));
  return html`<section aria-labelledby="decided">
    <h2 id="decided">Decided</h2>
    <ol class="timeline">
      ${[...review.decisions].reverse().map((one) => {
        const other = one.documents.find((id) => id !== review.id);
        const name = known.has(other) ? titleOf(known.get(other)) : `document ${short(other)}`;
        return html`<li>
          <p><b><${Who} value=${one.by} /> ${one.verdict} ${name}</b> <span class="quiet"><${Time} at=${one.at} /></span></p>
          ${one.reason && html`<p>${one.reason}</p>`}
        </li>`;
      })}
    </ol>
    ${review.state === "decided" && may("operator") &&
    html`<p class="quiet">To take a decision back, decide otherwise above: the last word counts.</p>`}
  </section>`;
}
