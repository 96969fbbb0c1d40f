// Locates errors in the text of a JSON object, because browsers report them differently or without a position.

const DECEPTIVE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

// JSON as text for people. Characters that change the direction of writing are escaped, as others in JSON are.
export const shownJson = (value, indent) =>
  JSON.stringify(value, null, indent).replace(DECEPTIVE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

const TOKEN =
  /[{}[\],:]|"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const SPACE = /[ \t\n\r]*/y;
const DEEPEST = 500;

class Wrong extends Error {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

class Reader {
  constructor(text) {
    this.text = text;
    this.next(0);
  }

  // Goes to the token at `at` or behind it; "" at the end.
  next(at = this.at + this.token.length) {
    SPACE.lastIndex = at;
    SPACE.exec(this.text);
    this.at = SPACE.lastIndex;
    TOKEN.lastIndex = this.at;
    this.token = TOKEN.exec(this.text)?.[0] ?? "";
    if (!this.token && this.at < this.text.length) {
      const open = this.text[this.at] === '"';
      throw new Wrong(open ? "This text does not end, or has a character that JSON writes with a backslash." : "This is nothing that JSON knows.", this.at);
    }
  }

  take(token, says) {
    if (this.token !== token) {
      throw new Wrong(says, this.token ? this.at : this.text.length);
    }
    this.next();
  }

  value(depth) {
    if (depth > DEEPEST) {
      throw new Wrong("This is nested too deeply.", this.at);
    }
    if (this.token === "{") {
      this.members(depth);
    } else if (this.token === "[") {
      this.items(depth);
    } else if (!this.token || "}],:".includes(this.token)) {
      throw new Wrong("A value is missing here.", this.at);
    } else {
      this.next();
    }
  }

  members(depth) {
    const names = new Set();
    this.next();
    while (this.token !== "}") {
      if (names.size) {
        this.take(",", "A comma or } is missing before this.");
      }
      const { token, at } = this;
      if (!token.startsWith('"')) {
        throw new Wrong("A name in double quotes is missing here.", at);
      }
      const name = JSON.parse(token);
      if (names.has(name)) {
        throw new Wrong(`The name ${token} is there twice.`, at);
      }
      names.add(name);
      this.next();
      this.take(":", "A colon is missing before this.");
      this.value(depth + 1);
    }
    this.next();
  }

  items(depth) {
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

// { message, at }, `at` the place in the text; null where it is a JSON object.
export function wrongWith(text) {
  try {
    const reader = new Reader(text);
    if (reader.token !== "{") {
      throw new Wrong("A payload is a JSON object: it begins with { and ends with }.", reader.at);
    }
    reader.value(0);
    if (reader.token) {
      throw new Wrong("Nothing may stand behind the end of the object.", reader.at);
    }
    return null;
  } catch (error) {
    if (error instanceof Wrong) {
      return { message: error.message, at: error.at };
    }
    throw error;
  }
}

// The field that the API names ("... wrong at payload.url.path: ...") in the text: its place, or null.
export function placeOfField(text, message) {
  const named = / at payload\.([\w.]+)/.exec(message);
  let from = null;
  for (const word of named?.[1].split(".") ?? []) {
    const found = text.indexOf(`"${word}"`, from ?? 0);
    if (found === -1) {
      break;
    }
    from = found;
  }
  return from;
}

export const lineAt = (text, at) => text.slice(0, at).split("\n").length;
