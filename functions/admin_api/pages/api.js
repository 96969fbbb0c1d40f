// Client of the API, with the token of the signed-in user.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ROOT } from "./place.js";

// An unsuccessful response. `message` is a sentence for people.
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const BY_GATEWAY = {
  401: "Your session has ended: sign in again.",
  403: "You may not see this.",
  429: "Too many requests. Try again in a few seconds.",
  503: "The API is busy. Try again in a few seconds.",
  504: "The API took too long to answer. Try again.",
};

// What GET answers, as an object. `query` without empty values; a list is a parameter given several times.
export async function ask(path, query = {}, signal = undefined) {
  return (await send("GET", path, { query, signal })).data;
}

// Sends a change: POST, PATCH, PUT or DELETE with a JSON body (null: none; a text is JSON already). `etag` is the version that was
// read. Returns { data, etag, status }; raises ApiError, 412 if someone else has changed it.
export function change(method, path, body = null, { etag = null, query = {} } = {}) {
  const headers = {};
  if (body !== null) {
    headers["content-type"] = "application/json";
  }
  if (etag !== null) {
    headers["if-match"] = etag;
  }
  const text = body === null ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  return send(method, path, { query, headers, body: text }).then((answer) => {
    for (const wake of [...steady]) {
      wake();
    }
    return answer;
  });
}

// An image of a page as a Blob, because an image URL cannot carry a token; and the number of pages.
export async function askPage(path, signal = undefined) {
  const answer = await answered("GET", path, { signal });
  return { image: await answer.blob(), pages: Number(answer.headers.get("x-pages")) };
}

// As the API writes the version of a thing in its ETag.
export const etagOf = (version) => `"${version}"`;

// A number that JavaScript would write in another way (1.0, or one too large for it) stays as it was written.
export function exactly(text) {
  const kept = (_name, value, source) =>
    typeof value === "number" && JSON.rawJSON && source?.source && String(value) !== source.source
      ? JSON.rawJSON(source.source)
      : value;
  return JSON.parse(text, kept);
}

async function send(method, path, { exact = false, ...more } = {}) {
  const answer = await answered(method, path, more);
  const { status } = answer;
  const etag = answer.headers.get("etag");
  if (status === 304 || status === 204) {
    return { data: null, etag, status };
  }
  return { data: exact ? exactly(await answer.text()) : await answer.json(), etag, status };
}

// What GET answers, whatever it is: { status, data } of JSON that is no file, { status, file } of a file.
export async function fetchFile(path, query = {}, signal = undefined) {
  const answer = await answered("GET", path, { query, signal });
  const name = /filename="?([^";]+)"?/.exec(answer.headers.get("content-disposition") ?? "")?.[1];
  const file = name ? new File([await answer.blob()], name) : null;
  return { status: answer.status, file, data: file ? null : await answer.json() };
}

async function answered(method, path, { query = {}, headers = {}, body, signal }) {
  const url = new URL(`../api/${path}`, ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") {
        url.searchParams.append(name, one);
      }
    }
  }
  const token = await ask.session.token();
  if (token === null) {
    throw new ApiError(401, BY_GATEWAY[401]);
  }
  let answer;
  try {
    answer = await fetch(url, { method, body, headers: { ...headers, authorization: `Bearer ${token}` }, signal });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, "The API cannot be reached. Is there a network?");
  }
  if (answer.ok || answer.status === 304) {
    return answer;
  }
  if (answer.status === 401) {
    ask.session.end();
  }
  throw new ApiError(answer.status, await sentence(answer));
}

async function sentence(answer) {
  if (answer.headers.get("content-type")?.startsWith("application/problem+json")) {
    return (await answer.json()).detail;
  }
  return BY_GATEWAY[answer.status] ?? `The API failed (${answer.status}). Try again.`;
}

// From the beginning of a question to that of the next one, of whatever may change while it is seen: what changed is
// shown within 1 s where an answer takes no longer than 100 ms.
export const LIVE_SECONDS = 0.9;
// For small answers on which others depend: when one changes (`version`), the others are requested immediately.
export const LEADING_SECONDS = 0.8;
// For answers that depend on another one or rarely change: many pages may be open before the gateway rejects requests.
export const STEADY_SECONDS = 5;
const LEAST = 0.25; // part of it that is always left between an answer and the next question
const QUIET_SECONDS = 600;
export const QUIET_MINUTES = QUIET_SECONDS / 60;
export const SLOW_SECONDS = 5;
const SLOWEST_SECONDS = 60;

// Time of the last change or user input; listeners to it; and listeners that wait longer than a moment,
// except for changes made here.
let active = Date.now();
const slow = new Set();
const steady = new Set();
function stir() {
  active = Date.now();
  for (const wake of [...slow]) {
    wake();
  }
}
for (const kind of ["pointerdown", "pointermove", "keydown", "scroll", "focus"]) {
  addEventListener(kind, stir, { passive: true, capture: true });
}

export const isQuiet = ({ active, now }) => now - active >= QUIET_SECONDS * 1000;

// Seconds to wait after a response that took `took` seconds: the given interval while something changes (`active`: when it last did,
// in milliseconds as `now`), then longer, and increasingly longer after failures.
export function pace(every, { active, took, failures, now }) {
  if (failures) {
    return Math.min(SLOWEST_SECONDS, every * 2 ** failures);
  }
  return isQuiet({ active, now }) ? Math.max(every, SLOW_SECONDS) : Math.max(every - took, every * LEAST);
}

// `{ data, error, busy, again }` of a question, requested again when it changes, and every `seconds` seconds while the page
// is visible (0: never). `question` is [path, query]; null requests nothing. An answer stays visible until there is
// a newer one for the path. An unchanged answer, by its ETag, is not sent again.
// `exact`: numbers stay as written, for views that show or edit JSON. `version`: of the object it depends on; it is requested
// again at once when that is another one (null: not known yet).
export function useAnswer(question, { every = 0, exact = false, version = null } = {}) {
  const key = JSON.stringify(question);
  const [state, setState] = useState({ data: null, error: null, busy: true });
  const [round, setRound] = useState(0);
  const last = useRef(null);
  const told = useRef(version);
  const asks = useRef(null);
  useEffect(() => {
    if (question === null) {
      last.current = null;
      setState({ data: null, error: null, busy: false });
      return undefined;
    }
    const stop = new AbortController();
    const [path, query] = question;
    let timer;
    let known = { etag: null, text: null };
    let failures = 0;
    let fresh = true; // until the first answer
    let asking = false;
    let more = false; // something changed during the request
    const kept = last.current === path;
    last.current = path;
    setState((before) => ({ data: kept ? before.data : null, error: null, busy: true }));
    async function once() {
      if (asking) {
        more = true;
        return;
      }
      clearTimeout(timer);
      timer = undefined;
      slow.delete(once);
      asking = true;
      const began = Date.now();
      try {
        const headers = known.etag ? { "if-none-match": known.etag } : {};
        const { data, etag, status } = await send("GET", path, { query, headers, signal: stop.signal, exact });
        const text = status === 304 ? known.text : JSON.stringify(data);
        if (text !== known.text) {
          known = { etag, text };
          setState({ data, error: null, busy: false });
          if (!fresh) {
            stir();
          }
          fresh = false;
        } else {
          setState((before) => (before.error || before.busy ? { ...before, error: null, busy: false } : before));
        }
        failures = 0;
      } catch (error) {
        if (stop.signal.aborted) {
          return;
        }
        failures += 1;
        setState((before) => ({ ...before, error, busy: false }));
      } finally {
        asking = false;
      }
      if (more && !stop.signal.aborted) {
        more = false;
        once();
        return;
      }
      if (every && !stop.signal.aborted && !document.hidden) {
        const now = Date.now();
        timer = setTimeout(once, pace(every, { active, took: (now - began) / 1000, failures, now }) * 1000);
        if (!failures && isQuiet({ active, now })) {
          slow.add(once);
        }
      }
    }
    function seen() {
      if (every && !document.hidden && timer === undefined) {
        once();
      } else if (document.hidden) {
        clearTimeout(timer);
        timer = undefined;
        slow.delete(once);
      }
    }
    document.addEventListener("visibilitychange", seen);
    asks.current = once;
    if (every > LIVE_SECONDS) {
      steady.add(once);
    }
    once();
    return () => {
      document.removeEventListener("visibilitychange", seen);
      stop.abort();
      clearTimeout(timer);
      slow.delete(once);
      steady.delete(once);
      asks.current = null;
    };
  }, [key, round, every]);
  useEffect(() => {
    const before = told.current;
    told.current = version;
    if (before !== null && before !== version) {
      asks.current?.();
    }
  }, [version]);
  return { ...state, again: useCallback(() => setRound((before) => before + 1), []) };
}
