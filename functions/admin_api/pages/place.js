// Where the user is: words of the path below the console's root, and the query. Every view can be linked to. A trailing
// slash changes nothing.

import { useEffect, useState } from "preact/hooks";

// Scripts are served from /console/assets/, whatever the console itself is served under.
export const ROOT = new URL("../", import.meta.url);

const heard = new Set();

export function here() {
  const words = location.pathname.slice(ROOT.pathname.length).replace(/\/$/, "").split("/");
  return { words: words.map(decoded), query: new URLSearchParams(location.search) };
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // no text that was ever encoded: then it names nothing
  }
}

export function usePlace() {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const hear = () => setPlace(here());
    heard.add(hear);
    hear();
    return () => heard.delete(hear);
  }, []);
  return place;
}

function tell() {
  for (const hear of heard) {
    hear();
  }
}

// Goes to a view without loading the page; `query` without empty values.
export function go(path, query = {}, { replace = false } = {}) {
  go.to(go.href(path, query), { replace });
}

go.href = (path, query = {}) => {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") {
        url.searchParams.append(name, one);
      }
    }
  }
  return url.href;
};

go.to = (href, { replace = false } = {}) => {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  tell();
};

addEventListener("popstate", tell);

// A click on an internal link changes the view; with a modifier or another target, the browser handles it.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) {
    return;
  }
  const url = new URL(link.href);
  const ours = url.origin === ROOT.origin && url.pathname.startsWith(ROOT.pathname);
  if (!ours || url.hash || url.pathname.startsWith(`${ROOT.pathname}assets/`)) {
    return;
  }
  event.preventDefault();
  go.to(url.href);
  scrollTo(0, 0);
  document.querySelector("main")?.focus({ preventScroll: true });
});
