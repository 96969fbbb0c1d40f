// Decisions about documents on several pages: confirm, reject, merge, split,
// accept or dispute a variance.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { change } from "../api.js";
import { NoteDialog } from "../dialog.js";
import { titleOf } from "../documents/papers.js";

const CHANGED = [404, 409, 412];

// Sends a decision. If it is refused because of a change, the data behind the dialog is requested again.
export async function anew(again, decide, note = () => {}) {
  try {
    await decide();
  } catch (error) {
    if (CHANGED.includes(error.status)) {
      again();
      note(error);
    }
    throw error;
  }
}

// Superseded decisions: known ones and, after a refusal, the one of someone else.
export function useSuperseded(known = []) {
  const [ids, setIds] = useState(known);
  const [before] = useState(known.length);
  const note = (error) => {
    const found = /\(decision (\d+)\)/.exec(error.message);
    if (found) {
      setIds((others) => [...others, Number(found[1])]);
    }
  };
  return { ids, note, isNew: ids.length > before };
}

export const allTheSame = (verb, { isNew }) => (isNew ? `${verb} all the same` : verb);

let said = null; // last decision, for the next page: { sentence, href }

export function sayNext(sentence, href) {
  said = { sentence, href };
}

// The decision made on the previous page, with a link to change it.
export function Told() {
  const [last] = useState(() => said);
  useEffect(() => {
    said = null;
  }, []);
  return html`<div role="status">
    ${last && html`<p class="told">${last.sentence} <a href=${last.href}>Look at it, or decide otherwise</a></p>`}
  </div>`;
}

// Two documents belong together, whatever matching thinks of it.
export function MergeDialog({ paper, done, close, again }) {
  const [other, setOther] = useState("");
  const [exact, setExact] = useState(false);
  const superseded = useSuperseded();
  const send = (reason) =>
    anew(again, async () => {
      const documents = [paper.id, other.trim()];
      await change("POST", "admin/reviews/merge", { documents, exact, reason: reason || null, supersedes: superseded.ids });
      done();
    }, superseded.note);
  return html`<${NoteDialog} title="Belongs to another document" verb=${allTheSame("Merge", superseded)} label="Why" needed=${false} act=${send} close=${close}>
    <p>${titleOf(paper)}, with all that belongs to it, belongs together with another document, whatever matching thinks.</p>
    <label class="field">Id of the other document
      <input class="full" required pattern="\\s*[0-9a-fA-F\\-]{36}\\s*" title="An id, as the page of a document shows it"
        value=${other} autocomplete="off" spellcheck=${false} onInput=${(event) => setOther(event.target.value)} />
    </label>
    <p><label class="choice"><input type="checkbox" checked=${exact} onChange=${(event) => setExact(event.target.checked)} />
      Link just these two, not those of both sides that fit best</label></p>
  <//>`;
}

// A document does not belong to its cluster.
export function SplitDialog({ paper, done, close, again }) {
  const superseded = useSuperseded();
  const send = (reason) =>
    anew(again, async () => {
      await change("POST", "admin/reviews/split", { document: paper.id, reason: reason || null, supersedes: superseded.ids });
      done();
    }, superseded.note);
  return html`<${NoteDialog} title="Does not belong here" verb=${allTheSame("Split", superseded)} label="Why" needed=${false} act=${send} close=${close}>
    <p>${titleOf(paper)} does not belong to its cluster: all its links there are rejected, for good.</p>
  <//>`;
}

// Accept or dispute a variance of a cluster.
export function DifferenceDialog({ cluster, variance, word, done, close, again }) {
  const accepts = word === "accept";
  const { document, code, line, expected, actual } = variance;
  const superseded = useSuperseded();
  const send = (reason) =>
    anew(again, async () => {
      await change("POST", `admin/reviews/${word}`, {
        cluster, document, code, line, expected, actual, reason: reason || null, supersedes: superseded.ids,
      });
      done();
    }, superseded.note);
  return html`<${NoteDialog} title=${accepts ? "This difference may be" : "This difference may not be"}
    verb=${allTheSame(accepts ? "Accept" : "Dispute", superseded)} label="Why" needed=${false} act=${send} close=${close}>
    <p>${variance.sentence}</p>
    <p class="quiet">${accepts ? "It needs no further action." : "It stays open, whatever the tolerances are."} Your name is stored with it.</p>
  <//>`;
}
