// Formatters for ids, names, times (in local time or UTC, as the user chooses), money, numbers and durations.

import type { TargetedEvent } from "preact";
import { useEffect, useState } from "preact/hooks";

type Zone = "local" | "utc";

const STORAGE_KEY = "counterfoil.times";
const listeners = new Set<(zone: Zone) => void>();
let currentZone: Zone = localStorage.getItem(STORAGE_KEY) === "utc" ? "utc" : "local";

export function formatMoment(moment: Date, zone: Zone = "local") {
  return new Intl.DateTimeFormat("en-GB", {
    dateStyle: "medium",
    timeStyle: "medium",
    timeZone: zone === "utc" ? "UTC" : undefined,
  }).format(moment);
}

function useZone() {
  const [chosen, setChosen] = useState(currentZone);
  useEffect(() => {
    listeners.add(setChosen);
    setChosen(currentZone);
    return () => listeners.delete(setChosen);
  }, []);
  return chosen;
}

export function ZoneSwitch() {
  const chosen = useZone();
  const choose = (event: TargetedEvent<HTMLSelectElement>) => {
    currentZone = event.currentTarget.value as Zone;
    localStorage.setItem(STORAGE_KEY, currentZone);
    for (const listener of listeners) {
      listener(currentZone);
    }
  };
  return (
    <label class="zone">
      <span>Times</span>
      <select value={chosen} onChange={choose}>
        <option value="local">Local</option>
        <option value="utc">UTC</option>
      </select>
    </label>
  );
}

// A time in the chosen time zone. `showsUtc`: show both local time and UTC.
export function Time({ at, showsUtc = false }: { at: string; showsUtc?: boolean }) {
  const chosen = useZone();
  const moment = new Date(at);
  const text = `${formatMoment(moment, chosen)}${chosen === "utc" ? " UTC" : ""}`;
  const other = chosen === "utc" ? "local" : "utc";
  return (
    <time datetime={at}>
      {text}
      {showsUtc && (
        <>
          {" "}
          <span class="muted single-line">
            ({formatMoment(moment, other)} {other === "utc" ? "UTC" : "local"})
          </span>
        </>
      )}
    </time>
  );
}

// Formats an amount (a decimal string) with at least two decimal places, followed by its currency.
export function formatMoney(amount: string | null, currency: string | null = null) {
  if (amount === null) {
    return null;
  }
  const format = new Intl.NumberFormat("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 6 });
  return [format.format(amount as Intl.StringNumericLiteral), currency].filter(Boolean).join(" ");
}

// Formats an amount that is followed by its currency, such as "2159.47 EUR". Returns any other text unchanged.
export function formatTotal(text: string | null | undefined) {
  const [, amount, currency] = /^(-?\d+(?:\.\d+)?)(?: (\S+))?$/.exec(text ?? "") ?? [];
  return amount ? formatMoney(amount, currency) : text;
}

// Formats a decimal string, such as a quantity.
export function formatDecimal(value: string | null) {
  const format = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 6 });
  return value === null ? null : format.format(value as Intl.StringNumericLiteral);
}

export const formatNumber = (value: number) => new Intl.NumberFormat("en-GB").format(value);

// Formats a number with its noun, for example "1 dead letter" or "2 dead letters".
export const formatCount = (count: number, noun: string) => `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;

// Formats a fraction as a percentage, with one decimal place if it is below 10%.
export const formatPercent = (share: number) =>
  new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: share < 0.1 ? 1 : 0 }).format(share);

const MIN_SHOWN = 0.05; // smaller values would be rounded to 0.0

// Formats a rate per minute, with one decimal place if it is below 10.
export function formatRate(count: number, minutes: number) {
  const rate = count / minutes;
  return `${rate < MIN_SHOWN ? "under 0.1" : rate.toFixed(rate < 10 ? 1 : 0)} per minute`;
}

// Formats a day (YYYY-MM-DD). Returns other text unchanged.
export function formatDay(day: string | null = null) {
  const moment = new Date(`${day}T00:00:00Z`);
  const format = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });
  return day === null || Number.isNaN(moment.getTime()) ? day : format.format(moment);
}

const CAPITALS = /\b(iban|bic|vat|po|id|http|url)\b/gi;

// Converts an API name to a label, for example "vat_id" to "VAT ID".
export function toLabel(name: string) {
  const words = name.replace(/[_-]/g, " ").replace(CAPITALS, (word) => word.toUpperCase());
  return `${words[0].toUpperCase()}${words.slice(1)}`;
}

const SHORT_ID_LENGTH = 8; // last characters, because ids created at about the same time start alike

export const shortId = (id: string) => id.slice(-SHORT_ID_LENGTH);

export const secondsBetween = (start: string, end: string) => (Date.parse(end) - Date.parse(start)) / 1000;

// Formats a duration in its two largest units, or in seconds with one decimal place below 10 seconds.
export function formatDuration(seconds: number) {
  if (seconds < MIN_SHOWN) {
    return "under 0.1 s";
  }
  if (seconds < 10) {
    return `${Number(seconds.toFixed(1))} s`;
  }
  const units: [string, number][] = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, size]) => seconds >= size);
  let left = Math.floor(seconds);
  const parts = units.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return count ? `${count} ${name}` : "";
  });
  return parts.filter(Boolean).join(" ");
}

// Returns the start of a local day (YYYY-MM-DD) plus `later` days as a UTC timestamp, or null if the day is invalid.
export function startOfDay(day: string, later = 0) {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) {
    return null;
  }
  const [year, month, date] = day.split("-").map(Number);
  const moment = new Date(year, month - 1, date + later);
  return Number.isNaN(moment.getTime()) ? null : moment.toISOString();
}
