// Fake browser APIs for the console's modules.

export const CONSOLE = "https://api.example.com/console";

let stored = new Map();

const storage = () => ({
  getItem: (key) => stored.get(key) ?? null,
  setItem: (key, value) => stored.set(key, String(value)),
  removeItem: (key) => stored.delete(key),
});

export const browser = {
  navigatedTo: null,
  begin(href, answer) {
    stored = new Map();
    browser.navigatedTo = null;
    const url = new URL(href);
    globalThis.location = {
      href,
      pathname: url.pathname,
      search: url.search,
      assign: (to) => (browser.navigatedTo = to),
    };
    globalThis.fetch = async (request, options) => answer(String(request.href ?? request), options);
  },
  storedKeys: () => [...stored.keys()],
};

globalThis.sessionStorage = storage();
globalThis.localStorage = storage();
globalThis.addEventListener = () => {};
// Timers never fire in tests.
globalThis.setTimeout = () => 0;
globalThis.clearTimeout = () => {};
