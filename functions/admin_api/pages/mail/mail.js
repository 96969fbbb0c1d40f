// Mail that failed DMARC: operators release or reject it, and admins set the tenant's policy.

import { useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, change, LIVE_SECONDS, useAnswer } from "../api.js";
import { NoteDialog } from "../dialog.js";
import { Choice } from "../fields.js";
import { useKeys, useRowKeys } from "../keys.js";
import { Done, FactList, Failure, Notice, Pages, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { anew } from "../reviews/decisions.js";
import { may } from "../roles.js";
import { tenantOf } from "../tenant.js";
import { Time } from "../times.js";
import { Policy } from "./policy.js";

const STATES = { held: "on hold", released: "released", rejected: "rejected" };
const ACTIONS = {
  release: {
    key: "e",
    verb: "Release",
    says: "Its attachments become documents, as if it had passed DMARC. This cannot be undone.",
    done: "is released. Its attachments become documents.",
  },
  reject: {
    key: "r",
    verb: "Reject",
    says: "Nothing is taken from it. This cannot be undone.",
    done: "is rejected.",
  },
};

function wantedOf(place) {
  const { query } = place;
  return {
    tenant: tenantOf(place, ask.session),
    hold: Object.hasOwn(STATES, query.get("hold")) ? query.get("hold") : "held",
    cursor: query.get("cursor") ?? "",
  };
}

// The address omits defaults.
const hrefOf = ({ hold, ...others }) => go.href("mail", { ...others, hold: hold === "held" ? "" : hold });

export function Mail() {
  const wanted = wantedOf(usePlace());
  const [asked, setAsked] = useState(null); // { action, mail }
  const [said, setSaid] = useState(null); // { sentence, at }
  useTitle("Held mail");
  const { data, error, busy, again } = useAnswer(["admin/mail", wanted], { every: wanted.cursor ? 0 : LIVE_SECONDS });
  const policy = useAnswer(["admin/mail/policy", { tenant: wanted.tenant }]);
  const done = (sentence, refreshed = again) => {
    setAsked(null);
    setSaid({ sentence, at: Date.now() });
    refreshed();
  };
  return html`
    <h1>Held mail</h1>
    <p class="lead">Mail that fails DMARC: its sender may be forged. Check with the supplier by phone before you release it.</p>
    ${said && html`<${Done} key=${said.at}>${said.sentence}<//>`}
    <${Policy} answer=${policy} done=${(sentence) => done(sentence, policy.again)} />
    <form class="filter" role="search" aria-label="Mail" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} title="State" value=${wanted.hold} options=${Object.entries(STATES)}
        choose=${(hold) => go.to(hrefOf({ ...wanted, cursor: "", hold }))} />
    </form>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Mail" aria-busy=${busy}>
          <${Rows} wanted=${wanted} data=${data} decide=${(action, mail) => setAsked({ action, mail })} />
        </section>`
      : !error && html`<${Waiting} what="mail" />`}
    ${asked && html`<${DecideDialog} ...${asked} close=${() => setAsked(null)} again=${again} done=${done} />`}
  `;
}

function Rows({ wanted, data, decide }) {
  const { body, focused } = useRowKeys("mail");
  const isHeld = wanted.hold === "held";
  const decides = isHeld && may("operator");
  const last = decides ? "Decide" : isHeld ? null : "Decision"; // title of the last column
  useKeys(
    decides
      ? Object.entries(ACTIONS).map(([action, { key, verb }]) => ({
          key,
          what: `${verb} the mail that has the focus`,
          act: () => focused() >= 0 && decide(action, data.mails[focused()]),
        }))
      : [],
  );
  if (!data.mails.length) {
    return html`<${Nothing} wanted=${wanted} />`;
  }
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Received</th>
          <th scope="col">From</th>
          <th scope="col">Subject</th>
          <th scope="col">Sender check</th>
          ${last && html`<th scope="col">${last}</th>`}
        </tr>
      </thead>
      <tbody ref=${body}>
        ${data.mails.map((mail) => html`<${Row} key=${mail.id} mail=${mail} tenant=${data.tenant} last=${last} decide=${decides && decide} />`)}
      </tbody>
    </table>
    ${isHeld && !decides && html`<p class="quiet">Deciding requires the operator role.</p>`}
    <${Pages}
      newest=${wanted.cursor && hrefOf({ ...wanted, cursor: "" })}
      older=${data.next && hrefOf({ ...wanted, cursor: data.next })}
    />`;
}

const senderOf = (mail) => mail.sender ?? "an unknown sender";

// Results of SPF, DKIM and DMARC, as Amazon SES states them. A name and its result stay in one line.
const resultsOf = (mail) =>
  [["SPF", mail.spf], ["DKIM", mail.dkim], ["DMARC", mail.dmarc]]
    .map(([name, result]) => `${name}\u00a0${result ?? "unknown"}`)
    .join(", ");

function Row({ mail, tenant, last, decide }) {
  return html`<tr>
    <td data-label="Received"><${Time} at=${mail.received_at} /></td>
    <td data-label="From" class="from-outside">${mail.sender ?? html`<span class="quiet">not stated</span>`}</td>
    <td data-label="Subject" class="from-outside">${mail.subject ?? html`<span class="quiet">none</span>`}</td>
    <td data-label="Sender check">${resultsOf(mail)}</td>
    ${last &&
    html`<td data-label=${last}>
      ${decide && mail.hold === "held"
        ? html`<span class="buttons">${Object.entries(ACTIONS).map(
            ([action, { verb }]) => html`<button type="button" aria-label=${`${verb} mail from ${senderOf(mail)}`}
              onClick=${() => decide(action, mail)}>${verb}…</button>`,
          )}</span>`
        : html`${STATES[mail.hold]} <a href=${go.href("audit", { tenant, target: mail.id })}>Audit trail</a>`}
    </td>`}
  </tr>`;
}

function DecideDialog({ action, mail, close, again, done }) {
  const { verb, says, done: sentence } = ACTIONS[action];
  const send = (reason) =>
    anew(again, async () => {
      await change("POST", `admin/mail/${mail.id}/${action}`, { reason: reason || null });
      done(`The mail from ${senderOf(mail)} ${sentence}`);
    });
  const facts = [
    ["From", mail.sender ?? "not stated"],
    ["Subject", mail.subject ?? "none"],
    ["Received", html`<${Time} at=${mail.received_at} />`],
    ["Sender check", resultsOf(mail)],
  ];
  return html`<${NoteDialog} title=${`${verb} this mail?`} verb=${verb} label="Why" needed=${false} act=${send} close=${close}>
    <p>${says}</p>
    <${FactList} facts=${facts} />
  <//>`;
}

function Nothing({ wanted }) {
  if (wanted.cursor) {
    return html`<${Notice} title="Nothing further">There is no older mail in this state.<//>`;
  }
  if (wanted.hold === "held") {
    return html`<${Notice} title="No mail is on hold">Mail that the policy puts on hold appears here automatically.<//>`;
  }
  return html`<${Notice} title="There is none">No mail was ${STATES[wanted.hold]} yet.<//>`;
}
