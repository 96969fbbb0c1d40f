// Asks the API, as whoever is signed in.

import { useEffect, useRef, useState } from "preact/hooks";
import { ROOT } from "./place.js";

// An answer that is not what was asked for. `message` is a sentence for people.
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const BY_GATEWAY = {
  401: "Your session has ended: sign in again.",
  403: "You may not see this.",
  429: "Too much is asked for at once. Try again in a few seconds.",
  503: "The API has no room just now. Try again in a few seconds.",
  504: "The API took too long to answer. Try again.",
};

// What GET answers, as an object. `query` without empty values; a list is a parameter given several times.
export async function ask(path, query = {}, signal = undefined) {
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
    answer = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new ApiError(0, "The API cannot be reached. Is there a network?");
  }
  if (answer.ok) {
    return answer.json();
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

// `{ data, error, busy, again }` of a question, asked again when it changes, and every so many seconds while the page
// is seen. `question` is [path, query]. What was answered stays in sight until there is something newer of the path.
export function useAnswer(question, { every = 0 } = {}) {
  const key = JSON.stringify(question);
  const [state, setState] = useState({ data: null, error: null, busy: true });
  const [round, setRound] = useState(0);
  const last = useRef(null);
  useEffect(() => {
    const stop = new AbortController();
    let timer;
    const kept = last.current === question[0];
    last.current = question[0];
    setState((before) => ({ ...before, data: kept ? before.data : null, error: null, busy: true }));
    async function once() {
      try {
        const data = await ask(...question, stop.signal);
        setState({ data, error: null, busy: false });
      } catch (error) {
        if (stop.signal.aborted) {
          return;
        }
        setState((before) => ({ ...before, error, busy: false }));
      }
      if (every && !stop.signal.aborted) {
        timer = setTimeout(next, every * 1000);
      }
    }
    function next() {
      if (document.hidden) {
        timer = setTimeout(next, every * 1000);
      } else {
        once();
      }
    }
    once();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, round]);
  return { ...state, again: () => setRound(round + 1) };
}
