// API client that sends the signed-in user's token.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { components } from "./api_types";
import { currentSession } from "./current_session";
import { appendQuery, type Query, ROOT } from "./router";

// Requests and responses, by their names in the OpenAPI description.
export type Schemas = components["schemas"];

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
type Options = { query?: Query; headers?: Record<string, string>; body?: string; signal?: AbortSignal };
// `data` is null for 204 and 304.
export type Reply<Data> = { data: Data; etag: string | null; status: number };

// An unsuccessful response. `message` is shown to the user. `status` is 0 if the API cannot be reached. `decision`: a
// reviewer's decision that conflicts with the request.
export class ApiError extends Error {
  readonly status: number;
  readonly decision: Schemas["EarlierDecision"] | null;

  constructor(status: number, message: string, decision: Schemas["EarlierDecision"] | null = null) {
    super(message);
    this.status = status;
    this.decision = decision;
  }
}

const BY_GATEWAY: Record<number, string> = {
  401: "Your session has ended. Sign in again.",
  403: "You do not have permission to do this.",
  429: "Too many requests. Wait a few seconds, then retry.",
  503: "The API is busy. Wait a few seconds, then retry.",
  504: "The API timed out. If you made a change, check whether it was applied before you retry.",
};

// Returns the JSON body of a GET response.
export async function get<Data>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Data> {
  return (await requestJson<Data>("GET", path, { query, signal })).data;
}

// Sends a change with a JSON body. A string is sent unchanged, and null sends no body. `etag`: expected version.
// Throws ApiError, with status 412 if another user has changed the object.
export function send<Data>(
  method: Exclude<Method, "GET">,
  path: string,
  body: object | string | null = null,
  { etag = null, query = {} }: { etag?: string | null; query?: Query } = {},
): Promise<Reply<Data>> {
  const headers: Record<string, string> = {};
  if (body !== null) {
    headers["content-type"] = "application/json";
  }
  if (etag !== null) {
    headers["if-match"] = etag;
  }
  const text = body === null ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  return requestJson<Data>(method, path, { query, headers, body: text }).then((reply) => {
    for (const refresh of [...steady]) {
      refresh();
    }
    return reply;
  });
}

// Returns a page's image as a Blob, because an image URL cannot carry a token, and the file's number of pages.
export async function getPageImage(path: string, signal?: AbortSignal) {
  const response = await request("GET", path, { signal });
  return { image: await response.blob(), pages: Number(response.headers.get("x-pages")) };
}

// Returns a version's ETag in the API's format.
export const etagOf = (version: number | null) => `"${version}"`;

// Parses JSON. Numbers that JavaScript would write differently (such as 1.0, or very large ones) keep their notation.
export function parseJsonExact(text: string): unknown {
  const keep = (_name: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" && JSON.rawJSON && context?.source && String(value) !== context.source
      ? JSON.rawJSON(context.source)
      : value;
  return JSON.parse(text, keep);
}

async function requestJson<Data>(
  method: Method,
  path: string,
  { exact = false, ...options }: Options & { exact?: boolean } = {},
): Promise<Reply<Data>> {
  const response = await request(method, path, options);
  const { status } = response;
  const etag = response.headers.get("etag");
  if (status === 304 || status === 204) {
    return { data: null as Data, etag, status };
  }
  return { data: (exact ? parseJsonExact(await response.text()) : await response.json()) as Data, etag, status };
}

// Returns the file in a GET response, or null if the response has no file name.
export async function getFile(path: string, query: Query = {}, signal?: AbortSignal): Promise<File | null> {
  const response = await request("GET", path, { query, signal });
  const name = /filename="?([^";]+)"?/.exec(response.headers.get("content-disposition") ?? "")?.[1];
  return name ? new File([await response.blob()], name) : null;
}

async function request(method: Method, path: string, { query = {}, headers = {}, body, signal }: Options) {
  const url = new URL(`../api/${path}`, ROOT);
  appendQuery(url, query);
  const token = await currentSession().token();
  if (token === null) {
    throw new ApiError(401, BY_GATEWAY[401]);
  }
  let response: Response;
  try {
    response = await fetch(url, { method, body, headers: { ...headers, authorization: `Bearer ${token}` }, signal });
  } catch (error) {
    if ((error as Error).name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, "The API cannot be reached. Check your network connection.");
  }
  if (response.ok || response.status === 304) {
    return response;
  }
  if (response.status === 401) {
    currentSession().end();
  }
  throw await errorFrom(response);
}

async function errorFrom(response: Response): Promise<ApiError> {
  const { status } = response;
  if (response.headers.get("content-type")?.startsWith("application/problem+json")) {
    const { detail, decision } = (await response.json()) as Schemas["Problem"];
    return new ApiError(status, detail, decision);
  }
  const message = BY_GATEWAY[status] ?? `The API failed (HTTP ${status}). Wait a few seconds, then retry.`;
  return new ApiError(status, message);
}

// Interval between the starts of two requests, for data that changes while it is visible. A change is shown within 1 s
// if a response takes at most 100 ms.
export const POLL_FAST_SECONDS = 0.9;
// For small responses that other queries use as their `version`. When such a response changes, the other queries run
// immediately.
export const POLL_LEADER_SECONDS = 0.8;
// For responses that rarely change, or that are requested again when another response changes. Frequent polling by many
// open pages would exceed the gateway's rate limit.
export const POLL_SLOW_SECONDS = 5;
const MIN_PAUSE = 0.25; // minimum wait between a response and the next request, as a fraction of the interval
const QUIET_SECONDS = 600;
export const QUIET_MINUTES = QUIET_SECONDS / 60;
export const SLOW_SECONDS = 5;
const SLOWEST_SECONDS = 60;

// `active`: time of the last change or user input, in milliseconds. `slow`: refresh functions of idle queries, called
// on user input. `steady`: refresh functions with a long interval, called after a change by this user.
let active = Date.now();
const slow = new Set<() => void>();
const steady = new Set<() => void>();
function recordActivity() {
  active = Date.now();
  for (const refresh of [...slow]) {
    refresh();
  }
}
for (const kind of ["pointerdown", "pointermove", "keydown", "scroll", "focus"]) {
  addEventListener(kind, recordActivity, { passive: true, capture: true });
}

export const isIdle = ({ active, now }: { active: number; now: number }) => now - active >= QUIET_SECONDS * 1000;

// Returns the seconds to wait after a response that took `took` seconds. The wait is longer on an idle page, and
// doubles with each failure. `active` (last change or user input) and `now` are in milliseconds.
export function pollInterval(
  every: number,
  { active, took, failures, now }: { active: number; took: number; failures: number; now: number },
) {
  if (failures) {
    return Math.min(SLOWEST_SECONDS, every * 2 ** failures);
  }
  return isIdle({ active, now }) ? Math.max(every, SLOW_SECONDS) : Math.max(every - took, every * MIN_PAUSE);
}

export type QueryResult<Data> = {
  data: Data | null;
  error: ApiError | null;
  busy: boolean;
  reload: () => void;
};

// Requests a resource when `question` changes, and every `every` seconds while the page is visible (0: only once).
// `question`: [path, query], or null for no request. Data stays visible until newer data for the path arrives. With the
// ETag, unchanged data is not transferred again.
// `exact`: numbers keep their notation, for views that show or edit JSON. `version`: version of the object that the
// data depends on (null if unknown). A new version repeats the request immediately.
export function useQuery<Data>(
  question: readonly [string, Query] | null,
  { every = 0, exact = false, version = null }: { every?: number; exact?: boolean; version?: unknown } = {},
): QueryResult<Data> {
  const key = JSON.stringify(question);
  type State = Omit<QueryResult<Data>, "reload">;
  const [state, setState] = useState<State>({ data: null, error: null, busy: true });
  const [round, setRound] = useState(0);
  const lastPath = useRef<string | null>(null);
  const lastVersion = useRef(version);
  const current = useRef<(() => void) | null>(null);
  useEffect(() => {
    if (question === null) {
      lastPath.current = null;
      setState({ data: null, error: null, busy: false });
      return undefined;
    }
    const stop = new AbortController();
    const [path, query] = question;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let cached: { etag: string | null; text: string | null } = { etag: null, text: null };
    let failures = 0;
    let isFirst = true; // until the first response
    let isRequesting = false;
    let isChanged = false; // refresh() was called during the request
    const isSamePath = lastPath.current === path;
    lastPath.current = path;
    setState((before) => ({ data: isSamePath ? before.data : null, error: null, busy: true }));
    async function refresh() {
      if (isRequesting) {
        isChanged = true;
        return;
      }
      clearTimeout(timer);
      timer = undefined;
      slow.delete(refresh);
      isRequesting = true;
      const began = Date.now();
      try {
        const headers: Record<string, string> = cached.etag ? { "if-none-match": cached.etag } : {};
        const options = { query, headers, signal: stop.signal, exact };
        const { data, etag, status } = await requestJson<Data>("GET", path, options);
        const text = status === 304 ? cached.text : JSON.stringify(data);
        if (text !== cached.text) {
          cached = { etag, text };
          setState({ data, error: null, busy: false });
          if (!isFirst) {
            recordActivity();
          }
          isFirst = false;
        } else {
          setState((before) => (before.error || before.busy ? { ...before, error: null, busy: false } : before));
        }
        failures = 0;
      } catch (error) {
        if (stop.signal.aborted) {
          return;
        }
        failures += 1;
        setState((before) => ({ ...before, error: error as ApiError, busy: false }));
      } finally {
        isRequesting = false;
      }
      if (isChanged && !stop.signal.aborted) {
        isChanged = false;
        refresh();
        return;
      }
      if (every && !stop.signal.aborted && !document.hidden) {
        const now = Date.now();
        timer = setTimeout(refresh, pollInterval(every, { active, took: (now - began) / 1000, failures, now }) * 1000);
        if (!failures && isIdle({ active, now })) {
          slow.add(refresh);
        }
      }
    }
    function onVisibilityChange() {
      if (every && !document.hidden && timer === undefined) {
        refresh();
      } else if (document.hidden) {
        clearTimeout(timer);
        timer = undefined;
        slow.delete(refresh);
      }
    }
    document.addEventListener("visibilitychange", onVisibilityChange);
    current.current = refresh;
    if (every > POLL_FAST_SECONDS) {
      steady.add(refresh);
    }
    refresh();
    return () => {
      document.removeEventListener("visibilitychange", onVisibilityChange);
      stop.abort();
      clearTimeout(timer);
      slow.delete(refresh);
      steady.delete(refresh);
      current.current = null;
    };
  }, [key, round, every]);
  useEffect(() => {
    const before = lastVersion.current;
    lastVersion.current = version;
    if (before !== null && before !== version) {
      current.current?.();
    }
  }, [version]);
  return { ...state, reload: useCallback(() => setRound((before) => before + 1), []) };
}
