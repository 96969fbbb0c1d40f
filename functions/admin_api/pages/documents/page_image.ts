// Page images, requested with the token and displayed from an object URL.

import { useEffect, useState } from "preact/hooks";
import { ApiError, getPageImage } from "../api";

type PageImage = { url: string | null; pages: number | null; error: Error | null };

const RETRY_SECONDS = 3; // after a temporary failure
const MAX_ATTEMPTS = 5;
const BUSY_STATUSES = [0, 429, 503, 504];

// Loads a page image. While loading, `url` and `error` are null. `pages`: the file's page count, null until it is known.
export function usePageImage(path: string): PageImage {
  const [state, setState] = useState<PageImage>({ url: null, pages: null, error: null });
  useEffect(() => {
    const stop = new AbortController();
    let url: string | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    setState((before) => ({ url: null, pages: before.pages, error: null }));
    const load = async (attempt: number) => {
      try {
        const { image, pages } = await getPageImage(path, stop.signal);
        url = URL.createObjectURL(image);
        setState({ url, pages, error: null });
      } catch (error) {
        if (stop.signal.aborted) {
          return;
        }
        if (error instanceof ApiError && BUSY_STATUSES.includes(error.status) && attempt < MAX_ATTEMPTS) {
          timer = setTimeout(() => load(attempt + 1), RETRY_SECONDS * 1000);
        } else {
          setState((before) => ({ url: null, pages: before.pages, error: error as Error }));
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
