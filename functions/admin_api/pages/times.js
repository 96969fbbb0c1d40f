// Times for people: where they are, or in UTC, as they choose on any page; and numbers.

import { useEffect, useState } from "preact/hooks";
import { html } from "htm/preact";

const KEPT = "counterfoil.times";
const heard = new Set();
let zone = localStorage.getItem(KEPT) === "utc" ? "utc" : "local";

function written(moment, which) {
  return new Intl.DateTimeFormat("en-GB", {
    dateStyle: "medium",
    timeStyle: "medium",
    timeZone: which === "utc" ? "UTC" : undefined,
  }).format(moment);
}

function useZone() {
  const [chosen, setChosen] = useState(zone);
  useEffect(() => {
    heard.add(setChosen);
    setChosen(zone);
    return () => heard.delete(setChosen);
  }, []);
  return chosen;
}

export function ZoneSwitch() {
  const chosen = useZone();
  const choose = (event) => {
    zone = event.target.value;
    localStorage.setItem(KEPT, zone);
    heard.forEach((hear) => hear(zone));
  };
  return html`<label class="zone">
    <span>Times</span>
    <select value=${chosen} onChange=${choose}>
      <option value="local">local</option>
      <option value="utc">UTC</option>
    </select>
  </label>`;
}

// A moment; with `both`, in local time and in UTC.
export function Time({ at, both = false }) {
  const chosen = useZone();
  const moment = new Date(at);
  const text = `${written(moment, chosen)}${chosen === "utc" ? " UTC" : ""}`;
  const other = chosen === "utc" ? "local" : "utc";
  return html`<time datetime=${at}
    >${text}${both &&
    html` <span class="quiet">(${written(moment, other)} ${other === "utc" ? "UTC" : "local"})</span>`}</time
  >`;
}

export const number = (value) => new Intl.NumberFormat("en-GB").format(value);

// Seconds as people say them: the largest two units.
export function lasting(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) {
    return "0 s";
  }
  let left = Math.floor(seconds);
  const parts = units.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? `${count} ${name}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

// Start of a local day (YYYY-MM-DD) plus a number of days, for the API.
export function startOfDay(day, later = 0) {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day ?? "")) {
    return null;
  }
  const [year, month, date] = day.split("-").map(Number);
  const moment = new Date(year, month - 1, date + later);
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
}
