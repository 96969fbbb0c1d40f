// Current view: the words of the path below the console's root, and the query. Every view can be linked to. A trailing
// slash changes nothing.

import { useEffect, useState } from "preact/hooks";

type QueryValue = string | number | boolean | null | undefined;
// A list is a parameter given several times. Empty values are omitted.
export type Query = Record<string, QueryValue | readonly QueryValue[]>;
export type Route = { segments: string[]; query: URLSearchParams };

// Scripts are served from /console/assets/, whatever the console itself is served under.
export const ROOT = new URL("../", import.meta.url);

const listeners = new Set<() => void>();

export function currentRoute(): Route {
  const segments = location.pathname.slice(ROOT.pathname.length).replace(/\/$/, "").split("/");
  return { segments: segments.map(decoded), query: new URLSearchParams(location.search) };
}

function decoded(word: string) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // not encoded text, so it names no view
  }
}

// The value if it is one of `values`, else "".
export function knownValue<Value extends string>(values: readonly Value[], value: string | null): Value | "" {
  return values.find((known) => known === value) ?? "";
}

export function appendQuery(url: URL, query: Query) {
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") {
        url.searchParams.append(name, String(one));
      }
    }
  }
}

export function useRoute() {
  const [route, setPlace] = useState(currentRoute);
  useEffect(() => {
    const update = () => setPlace(currentRoute());
    listeners.add(update);
    update();
    return () => listeners.delete(update);
  }, []);
  return route;
}

function notify() {
  for (const listener of listeners) {
    listener();
  }
}

// Goes to a view without loading the page.
export function navigate(path: string, query: Query = {}, { replace = false } = {}) {
  navigate.to(navigate.href(path, query), { replace });
}

navigate.href = (path: string, query: Query = {}) => {
  const url = new URL(path, ROOT);
  appendQuery(url, query);
  return url.href;
};

navigate.to = (href: string, { replace = false } = {}) => {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  notify();
};

addEventListener("popstate", notify);

// A click on an internal link changes the view; with a modifier or another target, the browser handles it. Links in SVG
// have objects instead of strings as properties, so attributes are read.
addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || event.defaultPrevented || link.hasAttribute("target") || link.hasAttribute("download")) {
    return;
  }
  const url = new URL(link.getAttribute("href") ?? "", document.baseURI);
  const ours = url.origin === ROOT.origin && url.pathname.startsWith(ROOT.pathname);
  if (!ours || url.hash || url.pathname.startsWith(`${ROOT.pathname}assets/`)) {
    return;
  }
  event.preventDefault();
  navigate.to(url.href);
  scrollTo(0, 0);
  document.querySelector("main")?.focus({ preventScroll: true });
});
