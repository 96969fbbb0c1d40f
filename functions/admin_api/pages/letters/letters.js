// Dead letters: groups by error, and a list. The filter is in the address.

import { useRef, useState } from "preact/hooks";
import { html } from "htm/preact";
import { ask, LEADING_SECONDS, STEADY_SECONDS, useAnswer } from "../api.js";
import { BulkBar, BulkDialog, filterOf, MOST_CHOSEN } from "./bulk.js";
import { ACTIONS, LetterDialog, mayChangeMany } from "./changes.js";
import { ExportDialog } from "./export.js";
import { ANY, Choice, Days, useTyped } from "../fields.js";
import { Groups } from "./groups.js";
import { useKeys, useRowKeys } from "../keys.js";
import { go, usePlace } from "../place.js";
import { Done, Failure, Notice, Pages, Status, useTitle, Waiting } from "../parts.js";
import { may, maySeeEveryTenant } from "../roles.js";
import { NOBODY, tenantOf } from "../tenant.js";
import { number, startOfDay, Time } from "../times.js";

const LONGEST_TEXT = 200;
const STATUSES = ["pending", "retried", "resolved", "ignored"];

// What the address asks for.
function wantedOf(place) {
  const { query } = place;
  const status = query.getAll("status").filter((one) => STATUSES.includes(one));
  return {
    tenant: tenantOf(place, ask.session),
    status: status.length ? status : query.has("status") ? STATUSES : ["pending"],
    task_type: query.get("task_type") ?? "",
    text: query.get("text") ?? "",
    from: query.get("from") ?? "",
    to: query.get("to") ?? "",
    fingerprint: query.get("fingerprint") ?? "",
    cursor: query.get("cursor") ?? "",
  };
}

// The address of a filter, without defaults.
function hrefOf({ status, ...wanted }) {
  const usual = status.length === 1 && status[0] === "pending";
  const all = status.length === STATUSES.length;
  return go.href("dead-letters", { ...wanted, status: usual ? [] : all ? ["all"] : status });
}

export function Letters() {
  const place = usePlace();
  const wanted = wantedOf(place);
  const { tenant, status, from, to, cursor, ...others } = wanted;
  const [exporting, setExporting] = useState(false);
  useTitle("Dead letters");
  const stats = useAnswer(["admin/dlq/stats", { tenant }], { every: cursor ? 0 : LEADING_SECONDS });
  const letters = useAnswer(
    ["admin/dlq", { tenant, status, from_date: startOfDay(from), to_date: startOfDay(to, 1), cursor, ...others }],
    { every: cursor ? 0 : STEADY_SECONDS, version: stats.data },
  );
  const narrowed = Boolean(wanted.text || wanted.fingerprint || cursor || from || to || wanted.task_type);
  return html`
    <div class="heading">
      <h1>Dead letters</h1>
      <nav class="aside" aria-label="More about dead letters">
        ${maySeeEveryTenant() && tenant !== NOBODY && html`<a href=${go.href("dead-letters", { tenant: NOBODY })}>Nobody’s</a>`}
        ${tenant !== NOBODY &&
        html`<a href=${go.href("operations", { tenant })}>Operations</a>
          <button type="button" class="link" onClick=${() => setExporting(true)}>Export…</button>`}
      </nav>
    </div>
    <p class="lead">${tenant === NOBODY
      ? "Messages that cannot be parsed, so that their tenant is unknown. Close them one by one."
      : "Work that ended in failure. Each stays here until a person settles it."}</p>
    ${exporting && html`<${ExportDialog} wanted=${wanted} close=${() => setExporting(false)} />`}
    <${Counts} wanted=${wanted} stats=${stats.data} />
    <${Filter} wanted=${wanted} types=${stats.data?.task_types ?? []} />
    ${!narrowed && html`<${Groups} wanted=${wanted} counts=${stats.data} hrefOf=${hrefOf} />`}
    <${Found} key=${tenant} wanted=${wanted} answer=${letters} narrowed=${narrowed} />
  `;
}

function Counts({ wanted, stats }) {
  const one = wanted.status.length === 1 ? wanted.status[0] : null;
  return html`<nav class="counts" aria-label="By state">
    ${STATUSES.map(
      (status) => html`<a
        href=${hrefOf({ ...wanted, status: [status], cursor: "" })}
        aria-current=${one === status ? "true" : undefined}
        ><b>${stats ? number(stats[status]) : "–"}</b> <${Status} status=${status}
      /></a>`,
    )}
    <a href=${hrefOf({ ...wanted, status: STATUSES, cursor: "" })}
      aria-current=${wanted.status.length === STATUSES.length ? "true" : undefined}
      ><b>${stats ? number(stats.count) : "–"}</b> <span>all</span></a>
  </nav>`;
}

function Filter({ wanted, types }) {
  const [text, setText] = useTyped(wanted.text);
  const field = useRef(null);
  useKeys([{ key: "/", what: "Search", act: () => field.current.focus() }]);
  const change = (more) => go.to(hrefOf({ ...wanted, cursor: "", ...more }));
  const submit = (event) => {
    event.preventDefault();
    change({ text: text.trim() });
  };
  const known = types.map((one) => one.task_type);
  const listed = wanted.task_type && !known.includes(wanted.task_type) ? [...known, wanted.task_type] : known;
  const narrowed = wanted.text || wanted.task_type || wanted.from || wanted.to || wanted.fingerprint;
  return html`<form class="filter" role="search" aria-label="Dead letters" onSubmit=${submit}>
    <label class="wide">Words of the error or the file, or an id
      <input type="search" ref=${field} maxlength=${LONGEST_TEXT} value=${text} onInput=${(event) => setText(event.target.value)} />
    </label>
    <${Choice} title="Type" value=${wanted.task_type} options=${[ANY, ...listed.map((type) => [type, type])]} choose=${(task_type) => change({ task_type })} />
    <${Days} wanted=${wanted} change=${change} />
    <div class="buttons">
      <button class="main" type="submit">Search</button>
      ${narrowed && html`<a class="button" href=${go.href("dead-letters", { tenant: wanted.tenant })}>Clear</a>`}
    </div>
    ${wanted.fingerprint &&
    html`<p class="chosen">Only letters of the group <code>${wanted.fingerprint}</code>.${" "}
      <a href=${hrefOf({ ...wanted, fingerprint: "", cursor: "" })}>Show all groups</a></p>`}
  </form>`;
}

const LIST = "letters";

// Letters that are chosen stay so on other pages and in other searches, until something is done about them.
function Found({ wanted, answer, narrowed }) {
  const { data, error, busy, again } = answer;
  const [chosen, setChosen] = useState(new Map());
  const [asked, setAsked] = useState(null); // { action, letter } of one, { action, letters } of those chosen, or of all
  const [said, setSaid] = useState(null);
  const { body, focused } = useRowKeys("dead letter");
  const letters = data?.letters ?? [];
  const pending = may("operator") ? letters.filter((letter) => letter.status === "pending") : [];
  const many = mayChangeMany(wanted.tenant);
  const choosable = many ? pending : [];
  const choose = (some, on) =>
    setChosen((before) => {
      const after = new Map(before);
      for (const letter of some) {
        if (!on) {
          after.delete(letter.job_id);
        } else if (after.size < MOST_CHOSEN) {
          after.set(letter.job_id, letter);
        }
      }
      return after;
    });
  const here = () => pending.find((letter) => letter.job_id === letters[focused()]?.job_id);
  const begin = (action) => {
    const letter = here();
    if (chosen.size) {
      setAsked({ action, letters: [...chosen.values()] });
    } else if (letter) {
      setAsked({ action, letter });
    }
  };
  useKeys([
    { key: "Enter", what: "Open the dead letter that has the focus", act: null },
    ...(many
      ? [{ key: "x", what: "Choose the letter, or not", act: () => here() && choose([here()], !chosen.has(here().job_id)) }]
      : []),
    ...(may("operator")
      ? Object.entries(ACTIONS).map(([name, { key, verb }]) => ({
          key,
          what: many ? `${verb} the chosen letters, or the one that has the focus` : `${verb} the letter that has the focus`,
          act: () => begin(name),
        }))
      : []),
  ]);
  if (!data) {
    return error
      ? html`<${Failure} error=${error} again=${again} />`
      : html`<${Waiting} what="dead letters" />`;
  }
  const done = (sentence) => {
    setAsked(null);
    setSaid(sentence);
    again();
  };
  return html`<section aria-labelledby=${LIST} aria-busy=${busy}>
    <h2 id=${LIST}>Letters</h2>
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${said && html`<${Done}>${said}<//>`}
    ${letters.length > 0 && many &&
    html`<${BulkBar} wanted=${wanted} chosen=${chosen} page=${choosable} choose=${choose}
      clear=${() => setChosen(new Map())} begin=${(action) => setAsked({ action, letters: [...chosen.values()] })} />`}
    ${letters.length
      ? html`<table class="rows">
          <thead>
            <tr>
              ${choosable.length > 0 && html`<th scope="col"><span class="unseen">Chosen</span></th>`}
              <th scope="col">Died</th>
              <th scope="col">Error</th>
              <th scope="col">File</th>
              <th scope="col">Type</th>
              <th scope="col" class="count">Attempts</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody ref=${body}>
            ${letters.map(
              (letter) => html`<${LetterRow} key=${letter.job_id} letter=${letter} chosen=${chosen.has(letter.job_id)}
                choose=${choosable.length > 0 && ((on) => choose([letter], on))} />`,
            )}
          </tbody>
        </table>`
      : html`<${Nothing} wanted=${wanted} narrowed=${narrowed} more=${data.next} />`}
    <${Pages}
      newest=${wanted.cursor && hrefOf({ ...wanted, cursor: "" })}
      older=${data.next && hrefOf({ ...wanted, cursor: data.next })}
    />
    ${asked?.letter &&
    html`<${LetterDialog} letter=${asked.letter} action=${asked.action} close=${() => setAsked(null)} done=${done} />`}
    ${asked?.letters &&
    html`<${BulkDialog} action=${asked.action} letters=${asked.letters} filter=${filterOf(wanted)}
      close=${() => setAsked(null)} begun=${() => setChosen(new Map())} />`}
  </section>`;
}

function Nothing({ wanted, narrowed, more }) {
  if (more) {
    return html`<p class="notice">Nothing on this page of the search. Older letters may have it.</p>`;
  }
  if (narrowed) {
    return html`<${Notice} title="Nothing found">No letter is like that. Clear the search, or ask for other states.<//>`;
  }
  const only = wanted.status.length === 1 && wanted.status[0] === "pending";
  return html`<${Notice} title=${only ? "No work is waiting for a person" : "There are none"}
    >${only ? "All submitted work items have succeeded, are in progress, or were closed." : "No dead letter has this status."}<//
  >`;
}

function LetterRow({ letter, chosen, choose }) {
  const error = letter.metadata.last_error;
  const href = go.href(`dead-letters/${letter.job_id}`, { tenant: letter.tenant });
  return html`<tr class=${chosen ? "chosen" : undefined}>
    ${choose &&
    html`<td class="choose">
      ${letter.status === "pending" &&
      html`<label><input type="checkbox" checked=${chosen} onChange=${(event) => choose(event.target.checked)} />
        <span class="unseen">Choose the letter of ${letter.task_type} that died of ${error.type}, ${letter.job_id.slice(-8)}</span></label>`}
    </td>`}
    <td data-label="Died"><${Time} at=${letter.dlq_timestamp} /></td>
    <td data-label="Error"><a href=${href}>${error.message || error.type}</a> <span class="quiet">${error.type}</span></td>
    <td data-label="File">${letter.file_name ?? ""}</td>
    <td data-label="Type">${letter.task_type}</td>
    <td data-label="Attempts" class="count">${number(letter.attempts)}</td>
    <td data-label="State"><${Status} status=${letter.status} /></td>
  </tr>`;
}
