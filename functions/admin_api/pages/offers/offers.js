// Daily offers by date and time zone, with their progress. The filter is in the address.

import { useRef } from "preact/hooks";
import { html } from "htm/preact";
import { ask, LIVE_SECONDS, useAnswer } from "../api.js";
import { ANY, Choice, Days, useTyped } from "../fields.js";
import { useKeys, useRowKeys } from "../keys.js";
import { Progress } from "./parts.js";
import { Failure, Notice, Pages, Status, useTitle, Waiting } from "../parts.js";
import { go, usePlace } from "../place.js";
import { tenantOf } from "../tenant.js";
import { number, Time } from "../times.js";

const LONGEST_ZONE = 64;
const STATES = ["running", "completed", "failed"];
const DAY = /^\d{4}-\d{2}-\d{2}$/;

function wantedOf(place) {
  const { query } = place;
  const day = (name) => (DAY.test(query.get(name) ?? "") ? query.get(name) : "");
  return {
    tenant: tenantOf(place, ask.session),
    timezone: (query.get("timezone") ?? "").slice(0, LONGEST_ZONE),
    state: STATES.includes(query.get("state")) ? query.get("state") : "",
    from: day("from"),
    to: day("to"),
    cursor: query.get("cursor") ?? "",
  };
}

export function Offers() {
  const wanted = wantedOf(usePlace());
  useTitle("Offers");
  const { data, error, busy, again } = useAnswer(["admin/offers", wanted], { every: wanted.cursor ? 0 : LIVE_SECONDS });
  return html`
    <h1>Offers</h1>
    <p class="lead">Daily match offers at 9:00 local time, by date and time zone.</p>
    <${Filter} wanted=${wanted} />
    ${error && html`<${Failure} error=${error} again=${again} />`}
    ${data
      ? html`<section aria-label="Offers" aria-busy=${busy}><${Rows} wanted=${wanted} data=${data} /></section>`
      : !error && html`<${Waiting} what="offers" />`}
  `;
}

const isNarrowed = (wanted) => Boolean(wanted.timezone || wanted.state || wanted.from || wanted.to);

function Filter({ wanted }) {
  const [zone, setZone] = useTyped(wanted.timezone);
  const field = useRef(null);
  useKeys([{ key: "/", what: "Search for a time zone", act: () => field.current.focus() }]);
  const change = (more) => go("offers", { ...wanted, cursor: "", ...more });
  const submit = (event) => {
    event.preventDefault();
    change({ timezone: zone.trim() });
  };
  return html`<form class="filter" role="search" aria-label="Offers" onSubmit=${submit}>
    <label class="wide">Time zone
      <input ref=${field} type="search" maxlength=${LONGEST_ZONE} spellcheck=${false} placeholder="such as Europe/Berlin"
        value=${zone} onInput=${(event) => setZone(event.target.value)} />
    </label>
    <${Choice} title="State" value=${wanted.state} options=${[ANY, ...STATES.map((state) => [state, state])]} choose=${(state) => change({ state })} />
    <${Days} wanted=${wanted} change=${change} />
    <div class="buttons">
      <button class="main" type="submit">Search</button>
      ${isNarrowed(wanted) && html`<a class="button" href=${go.href("offers", { tenant: wanted.tenant })}>Clear</a>`}
    </div>
  </form>`;
}

function Rows({ wanted, data }) {
  const { body } = useRowKeys("pool");
  useKeys([{ key: "Enter", what: "Open the pool that has the focus", act: null }]);
  if (!data.pools.length) {
    return isNarrowed(wanted) || wanted.cursor
      ? html`<${Notice} title="No results">No offers match. Clear the search or choose other dates.<//>`
      : html`<${Notice} title="No offers yet"
          >Programs store profiles with <code>PUT /api/users/{id}/profile</code>. People are offered to each other from
          the next 9:00 of their time zone.<//
        >`;
  }
  return html`<table class="rows">
      <thead>
        <tr>
          <th scope="col">Date</th>
          <th scope="col">Time zone</th>
          <th scope="col" class="count">People</th>
          <th scope="col">Have their offers</th>
          <th scope="col" class="count">Failed</th>
          <th scope="col">Ended</th>
          <th scope="col">State</th>
        </tr>
      </thead>
      <tbody ref=${body}>${data.pools.map((pool) => html`<${Row} key=${pool.id} pool=${pool} />`)}</tbody>
    </table>
    <${Pages}
      newest=${wanted.cursor && go.href("offers", { ...wanted, cursor: "" })}
      older=${data.next && go.href("offers", { ...wanted, cursor: data.next })}
    />`;
}

function Row({ pool }) {
  return html`<tr>
    <td data-label="Date" class="when"><a href=${go.href(`offers/${pool.id}`, { tenant: pool.tenant })}>${pool.date}</a></td>
    <td data-label="Time zone" class="place">${pool.timezone}</td>
    <td data-label="People" class="count">${number(pool.users)}</td>
    <td data-label="Have offers"><${Progress} pool=${pool} /></td>
    <td data-label="Failed" class="count"><span class=${pool.failed ? "bad" : ""}>${number(pool.failed)}</span></td>
    <td data-label="Ended"><${Ended} pool=${pool} /></td>
    <td data-label="State"><${Status} status=${pool.state} /></td>
  </tr>`;
}

// When all was over, and whether offers were there in time: by 10:00, of those who came late within an hour.
function Ended({ pool }) {
  return html`${pool.ended_at ? html`<${Time} at=${pool.ended_at} />` : html`<span class="quiet">not yet</span>`}
    ${pool.late > 0 && html` <span class="late">${number(pool.late)} late</span>`}`;
}
