// As much of a browser as the session of the console uses.

export const CONSOLE = "https://api.example.com/console";

let stored = new Map();

const storage = () => ({
  getItem: (key) => stored.get(key) ?? null,
  setItem: (key, value) => stored.set(key, String(value)),
  removeItem: (key) => stored.delete(key),
});

export const browser = {
  went: null,
  begin(href, answer) {
    stored = new Map();
    browser.went = null;
    const url = new URL(href);
    globalThis.location = { href, pathname: url.pathname, search: url.search, assign: (to) => (browser.went = to) };
    globalThis.fetch = async (asked, options) => answer(String(asked.href ?? asked), options);
  },
  kept: () => [...stored.keys()],
};

globalThis.sessionStorage = storage();
globalThis.localStorage = storage();
globalThis.addEventListener = () => {};
// What a timer would do later, no test waits for.
globalThis.setTimeout = () => 0;
globalThis.clearTimeout = () => {};
