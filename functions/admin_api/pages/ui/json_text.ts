// Finds errors and their positions in JSON text, because browsers report them differently or without a position.

const DECEPTIVE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

// Formats JSON for display. Escapes control characters, including those that reverse the direction of text.
export const formatJson = (value: unknown, indent?: number) =>
  JSON.stringify(value, null, indent).replace(
    DECEPTIVE,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids these characters in strings.
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/;
const TOKEN = new RegExp(`[{}[\\],:]|${STRING.source}|${NUMBER.source}|true|false|null`, "y");
const SPACE = /[ \t\n\r]*/y;
const MAX_DEPTH = 500;

class JsonError extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

class Reader {
  readonly text: string;
  at = 0;
  token = "";

  constructor(text: string) {
    this.text = text;
    this.next(0);
  }

  // Reads the token at or after `at`. At the end of the text, `token` is "".
  next(at = this.at + this.token.length) {
    SPACE.lastIndex = at;
    SPACE.exec(this.text);
    this.at = SPACE.lastIndex;
    TOKEN.lastIndex = this.at;
    this.token = TOKEN.exec(this.text)?.[0] ?? "";
    if (!this.token && this.at < this.text.length) {
      const open = this.text[this.at] === '"';
      throw new JsonError(
        open
          ? "This string is not terminated, or contains a character that must be escaped."
          : "This is not valid JSON.",
        this.at,
      );
    }
  }

  take(token: string, message: string) {
    if (this.token !== token) {
      throw new JsonError(message, this.token ? this.at : this.text.length);
    }
    this.next();
  }

  value(depth: number) {
    if (depth > MAX_DEPTH) {
      throw new JsonError("This is nested too deeply.", this.at);
    }
    if (this.token === "{") {
      this.members(depth);
    } else if (this.token === "[") {
      this.items(depth);
    } else if (!this.token || "}],:".includes(this.token)) {
      throw new JsonError("A value is missing here.", this.at);
    } else {
      this.next();
    }
  }

  members(depth: number) {
    const names = new Set();
    this.next();
    while (this.token !== "}") {
      if (names.size) {
        this.take(",", "A comma or } is missing before this.");
      }
      const { token, at } = this;
      if (!token.startsWith('"')) {
        throw new JsonError("A name in double quotes is missing here.", at);
      }
      const name = JSON.parse(token);
      if (names.has(name)) {
        throw new JsonError(`The name ${token} appears twice.`, at);
      }
      names.add(name);
      this.next();
      this.take(":", "A colon is missing before this.");
      this.value(depth + 1);
    }
    this.next();
  }

  items(depth: number) {
    this.next();
    for (let count = 0; this.token !== "]"; count += 1) {
      if (count) {
        this.take(",", "A comma or ] is missing before this.");
      }
      this.value(depth + 1);
    }
    this.next();
  }
}

// Returns the first error and its position, or null if the text is a JSON object.
export function findJsonError(text: string): { message: string; at: number } | null {
  try {
    const reader = new Reader(text);
    if (reader.token !== "{") {
      throw new JsonError("A payload must be a JSON object, which begins with { and ends with }.", reader.at);
    }
    reader.value(0);
    if (reader.token) {
      throw new JsonError("No text is allowed after the end of the object.", reader.at);
    }
    return null;
  } catch (error) {
    if (error instanceof JsonError) {
      return { message: error.message, at: error.at };
    }
    throw error;
  }
}

// Returns the position of the field that an API error names ("... at payload.url.path: ..."), or null.
export function positionOfField(text: string, message: string) {
  const named = / at payload\.([\w.]+)/.exec(message);
  let from: number | null = null;
  for (const word of named?.[1].split(".") ?? []) {
    const found: number = text.indexOf(`"${word}"`, from ?? 0);
    if (found === -1) {
      break;
    }
    from = found;
  }
  return from;
}

export const lineAt = (text: string, at: number) => text.slice(0, at).split("\n").length;
