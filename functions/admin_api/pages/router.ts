// The current route: path segments below the console's root, and the query. Every view has a URL. A trailing slash is
// ignored.

import { useEffect, useState } from "preact/hooks";

type QueryValue = string | number | boolean | null | undefined;
// A list repeats its query parameter. Empty values are omitted.
export type Query = Record<string, QueryValue | readonly QueryValue[]>;
export type Route = { segments: string[]; query: URLSearchParams };

// Scripts are in assets/ below the console's root, so their URL yields the root.
export const ROOT = new URL("../", import.meta.url);

const listeners = new Set<() => void>();

export function currentRoute(): Route {
  const segments = location.pathname.slice(ROOT.pathname.length).replace(/\/$/, "").split("/");
  return { segments: segments.map(decodeSegment), query: new URLSearchParams(location.search) };
}

function decodeSegment(word: string) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // invalid encoding, so no view has this name
  }
}

// Returns `value` if it is one of `values`, else "".
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

// Shows a view without reloading the page.
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

// A click on an internal link changes the view. The browser handles clicks with a modifier key or another target. The
// attribute is read because the `href` property of an SVG link is an object.
addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || event.defaultPrevented || link.hasAttribute("target") || link.hasAttribute("download")) {
    return;
  }
  const url = new URL(link.getAttribute("href") ?? "", document.baseURI);
  const isInternal = url.origin === ROOT.origin && url.pathname.startsWith(ROOT.pathname);
  if (!isInternal || url.hash || url.pathname.startsWith(`${ROOT.pathname}assets/`)) {
    return;
  }
  event.preventDefault();
  navigate.to(url.href);
  scrollTo(0, 0);
  document.querySelector("main")?.focus({ preventScroll: true });
});
