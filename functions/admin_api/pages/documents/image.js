// Images of pages: asked for with a token, and shown from memory until the page goes.

import { useEffect, useState } from "preact/hooks";
import { askPage } from "../api.js";

const LATER_SECONDS = 3; // until a temporarily unavailable image is requested again
const TRIES = 5;
const NO_ROOM = [0, 429, 503, 504];

// `{ url, pages, error }`: all null while loading; `pages` of the whole file, once known.
export function useImage(path) {
  const [state, setState] = useState({ url: null, pages: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    let url = null;
    let timer;
    setState((before) => ({ url: null, pages: before.pages, error: null }));
    const load = async (tries) => {
      try {
        const { image, pages } = await askPage(path, stop.signal);
        url = URL.createObjectURL(image);
        setState({ url, pages, error: null });
      } catch (error) {
        if (stop.signal.aborted) {
          return;
        }
        if (NO_ROOM.includes(error.status) && tries < TRIES) {
          timer = setTimeout(() => load(tries + 1), LATER_SECONDS * 1000);
        } else {
          setState((before) => ({ url: null, pages: before.pages, error }));
        }
      }
    };
    load(1);
    return () => {
      stop.abort();
      clearTimeout(timer);
      if (url) {
        URL.revokeObjectURL(url);
      }
    };
  }, [path]);
  return state;
}
