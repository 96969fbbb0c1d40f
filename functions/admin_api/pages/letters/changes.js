// What may be done about a dead letter, and the dialogs that ask for the note.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ApiError, ask, change, etagOf } from "../api.js";
import { NoteDialog } from "../dialog.js";
import { FactList, Who } from "../parts.js";
import { may } from "../roles.js";
import { NOBODY } from "../tenant.js";
import { Time } from "../times.js";

// By their names in the API. `key`: that does it; `status`: what a letter is then.
export const ACTIONS = {
  retry: {
    key: "r",
    verb: "Retry",
    status: "retried",
    done: "It is being tried again.",
    needed: false,
    field: "notes",
    label: "Why is it tried again?",
    says: "Its work begins anew, with all of its tries.",
  },
  resolve: {
    key: "e",
    verb: "Resolve",
    status: "resolved",
    done: "It is resolved.",
    needed: true,
    field: "notes",
    label: "How was it dealt with?",
    says: "The failure was dealt with in another way. Nothing is tried again.",
  },
  ignore: {
    key: "i",
    verb: "Ignore",
    status: "ignored",
    done: "It is ignored.",
    needed: true,
    field: "reason",
    label: "Why is nothing done about it?",
    says: "Nothing is done about it, now or later.",
  },
};

export function mayChange(letter) {
  return letter.status === "pending" && may("operator");
}

// Whether something may be done to many letters at once: nobody's are looked at and settled one by one.
export function mayChangeMany(tenant) {
  return may("operator") && tenant !== NOBODY;
}

// What people did to a letter since, in words for people.
const PAST = { retried: "tried it again", resolved: "resolved it", ignored: "ignored it", edited: "edited its payload" };

export const pathOf = (letter) => `admin/dlq/${encodeURIComponent(letter.job_id)}`;

// The letter as it is now, and who changed it last: after a 412.
async function newest(letter) {
  const [now, { events }] = await Promise.all([ask(pathOf(letter)), ask(`${pathOf(letter)}/timeline`)]);
  return { now, last: events.findLast((event) => event.kind === "change") ?? null };
}

// Does something to a letter as it was `seen`, and keeps up with what others do to it: `seen` is not what the page
// shows, which follows the API by itself, but what the user had before him when he began.
export function useSeen(letter) {
  const [seen, setSeen] = useState(letter);
  const [last, setLast] = useState(null);
  const catchUp = async () => {
    const found = await newest(seen);
    if (found.now.version !== seen.version) {
      setSeen(found.now);
      setLast(found.last);
    }
    return found.now.version !== seen.version;
  };
  // What is settled is told at once. Whatever else was changed is told when it is about to be changed again.
  useEffect(() => {
    if (letter.status !== seen.status) {
      catchUp().catch(() => {}); // the API refuses, and says why
    }
  }, [letter.status]);
  const act = async (method, path, body) => {
    try {
      return await change(method, path, body, { etag: etagOf(seen.version) });
    } catch (error) {
      if (error.status !== 412 && error.status !== 409) {
        throw error;
      }
      if (!(await catchUp())) {
        throw error;
      }
      throw new ApiError(error.status, "Nothing was done: somebody was quicker. What you wrote is kept.");
    }
  };
  return { seen, act, meanwhile: last && html`<${Meanwhile} last=${last} letter=${seen} />`, over: seen.status !== "pending" };
}

function Meanwhile({ last, letter }) {
  return html`<div class="notice meanwhile">
    <p><b><${Who} value=${last.who} /> ${PAST[last.what] ?? `changed it (${last.what})`}</b> at <${Time} at=${last.at} />.</p>
    ${letter.resolution?.notes && html`<p>“${letter.resolution.notes}”</p>`}
    ${letter.status === "pending" && html`<p>The letter is pending still. Do it once more if it is still right.</p>`}
  </div>`;
}

// `done(sentence)` is told when it is done.
export function LetterDialog({ letter, action, close, done }) {
  const { verb, status, needed, field, label, says, done: sentence } = ACTIONS[action];
  const { seen, act, meanwhile, over } = useSeen(letter);
  const error = seen.metadata.last_error;
  const submit = async (note) => {
    await act("POST", `${pathOf(seen)}/${action}`, note ? { [field]: note } : {});
    done(sentence, status);
  };
  return html`<${NoteDialog} title=${`${verb} this dead letter?`} verb=${verb} label=${label} needed=${needed}
    blocked=${over ? `It is ${seen.status} already.` : null} act=${submit} close=${close}>
    <p>${says}</p>
    ${action === "retry" && seen.status === "pending" && html`<p class="quiet">A payload that was edited is tried as it is now.</p>`}
    <${FactList} facts=${[["Died of", html`<span class="clip">${error.message || error.type}</span>`], ["Type", seen.task_type]]} />
    ${meanwhile}
  <//>`;
}
