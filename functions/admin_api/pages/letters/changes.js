// What may be done about a dead letter, and the dialogs that ask for the note.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ApiError, ask, change, etagOf } from "../api.js";
import { NoteDialog } from "../dialog.js";
import { FactList, Who } from "../parts.js";
import { may } from "../roles.js";
import { NOBODY } from "../tenant.js";
import { Time } from "../times.js";

// By their names in the API. `key`: its shortcut; `status`: the resulting status of the dead letter.
export const ACTIONS = {
  retry: {
    key: "r",
    verb: "Retry",
    status: "retried",
    done: "The retry was requested.",
    needed: false,
    field: "notes",
    label: "Reason for the retry",
    says: "Its work item starts again with all attempts.",
  },
  resolve: {
    key: "e",
    verb: "Resolve",
    status: "resolved",
    done: "It is resolved.",
    needed: true,
    field: "notes",
    label: "How was it dealt with?",
    says: "The failure was handled in another way. Nothing is retried.",
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

// Whether bulk actions are available: unassigned dead letters are handled one by one.
export function mayChangeMany(tenant) {
  return may("operator") && tenant !== NOBODY;
}

// Changes of a dead letter, in words.
const PAST = { retried: "tried it again", resolved: "resolved it", ignored: "ignored it", edited: "edited its payload" };

export const pathOf = (letter) => `admin/dlq/${encodeURIComponent(letter.job_id)}`;

// The letter as it is now, and who changed it last: after a 412.
async function newest(letter) {
  const [now, { events }] = await Promise.all([ask(pathOf(letter)), ask(`${pathOf(letter)}/timeline`)]);
  return { now, last: events.findLast((event) => event.kind === "change") ?? null };
}

// Changes a dead letter that the user has `seen`, and follows changes by others. `seen` is not the displayed state,
// which follows the API, but the state when the user started.
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
  // A closed dead letter is reported immediately, other changes when the user tries to change it.
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
      throw new ApiError(error.status, "Someone else changed this first. Your note was not lost.");
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

// `done(sentence)` is called afterwards.
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
