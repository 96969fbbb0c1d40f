// Payloads and errors as text: JSON errors, differences, titles of errors and log commands.
// Run by test_page_text.py.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./browser.mjs";

const { parseJsonExact } = await import(process.env.API_MODULE);
const { withContext, diff } = await import(process.env.DIFF_MODULE);
const { lineAt, positionOfField, formatJson, findJsonError } = await import(process.env.JSON_MODULE);
const { errorTitle } = await import(process.env.TITLE_MODULE);
const { logCommand, traceCommand } = await import(process.env.LOG_MODULE);

test("direction control characters are escaped", () => {
  const name = "invoice_\u202efdp.exe";
  assert.equal(formatJson({ name }, 0), '{"name":"invoice_\\u202efdp.exe"}');
  assert.deepEqual(JSON.parse(formatJson({ name, other: "\u2066ä\u2069" }, 2)), { name, other: "\u2066ä\u2069" });
});

for (const [name, message, title] of [
  ["its message", "HTTP 400: unknown model", "HTTP 400: unknown model"],
  ["the first line of a long message", "HTTP 400\nTry again.", "HTTP 400"],
  ["the start of a long line", `${"word ".repeat(30)}end`, `${"word ".repeat(23)}word…`],
  ["the start of a long word", "x".repeat(130), `${"x".repeat(120)}…`],
  ["its type if it has no message", " \n", "TimeoutError"],
]) {
  test(`an error's title is ${name}`, () => assert.equal(errorTitle({ type: "TimeoutError", message }), title));
}

test("an attempt's log command is quoted for the shell", () => {
  const log = {
    group: "/aws/lambda/counterfoil-tasks",
    filter: '{ $.work_id = "7" && $.revision = 1 }',
    since: "2026-03-02T12:00:00Z",
    until: "2026-03-02T12:02:00.5Z",
  };
  assert.equal(
    logCommand(log),
    "aws logs filter-log-events --log-group-name /aws/lambda/counterfoil-tasks --start-time 1772452800000" +
      ` --end-time 1772452920500 --filter-pattern '{ $.work_id = "7" && $.revision = 1 }'`,
  );
});

test("an attempt's trace is shown as a command", () => {
  const id = "1-67891233-abcdef012345678912345678";
  assert.equal(traceCommand(id), `aws xray batch-get-traces --trace-ids ${id}`);
});

for (const text of [
  "{}",
  ' {"a": [1, -0.5e+3, "\\u00e9\\n", true, false, null, {}, []]} \n',
  '{"a": {"a": 1}, "b": {"a": 1}}',
  '{"": "", "ä": "😀"}',
]) {
  test(`${JSON.stringify(text)} is a valid JSON object`, () => {
    JSON.parse(text);
    assert.equal(findJsonError(text), null);
  });
}

for (const [text, at, says] of [
  ["", 0, /begins with {/],
  ["[1]", 0, /begins with {/],
  ["{", 1, /in double quotes/],
  ['{"a"}', 4, /colon/],
  ['{"a": }', 6, /value is missing/],
  ['{"a": 1,}', 8, /in double quotes/],
  ['{"a": 1 "b": 2}', 8, /comma or }/],
  ['{"a": [1, ]}', 10, /value is missing/],
  ['{"a": [1 2]}', 9, /comma or ]/],
  ['{"a": 01}', 7, /comma or }/],
  ['{"a": oops}', 6, /not valid JSON/],
  ["{'a': 1}", 1, /not valid JSON/],
  ['{"a": "b}', 6, /is not terminated/],
  ['{"a": "\n"}', 6, /is not terminated/],
  ['{"a": 1} x', 9, /not valid JSON/],
  ['{"a": 1} {}', 9, /after the end/],
  ['{"a": 1', 7, /comma or }/],
]) {
  test(`${JSON.stringify(text)} is invalid at ${at}`, () => {
    assert.throws(() => assert.ok(typeof JSON.parse(text) === "object" && !Array.isArray(JSON.parse(text))));
    const found = findJsonError(text);
    assert.equal(found.at, at);
    assert.match(found.message, says);
  });
}

test("duplicate names are errors, even if escaped differently", () => {
  assert.match(findJsonError('{"a": 1, "\\u0061": 2}').message, /twice/);
});

test("nesting that would overflow the stack is rejected", () => {
  assert.match(findJsonError(`{"a": ${"[".repeat(100_000)}`).message, /too deeply/);
});

test("the field that an API error names is found in the text", () => {
  const text = '{\n  "url": "x",\n  "headers": {\n    "url": 1\n  }\n}';
  assert.equal(lineAt(text, positionOfField(text, "The task is invalid at payload.url: no.")), 2);
  assert.equal(lineAt(text, positionOfField(text, "The task is invalid at payload.headers.url: no.")), 4);
  assert.equal(positionOfField(text, "The task is invalid at payload.method: it is missing."), null);
  assert.equal(positionOfField(text, "The payload is unchanged."), null);
});

const applied = (lines, kinds) =>
  lines
    .filter(([kind]) => kinds.includes(kind))
    .map(([, line]) => line)
    .join("\n");

for (const [before, after] of [
  ["a\nb\nc", "a\nb\nc"],
  ["a\nb\nc", "a\nc"],
  ["a\nc", "a\nb\nc"],
  ["a\nb\nc\nd", "b\nx\nd\ny"],
  ["a\na\na", "a"],
  ["", "a\nb"],
]) {
  test(`the diff between ${JSON.stringify(before)} and ${JSON.stringify(after)} contains both`, () => {
    const lines = diff(before, after);
    assert.equal(applied(lines, " -"), before);
    assert.equal(applied(lines, " +"), after);
  });
}

test("a changed line is removed and added", () => {
  assert.deepEqual(diff("{\na\n}", "{\nb\n}"), [
    [" ", "{"],
    ["-", "a"],
    ["+", "b"],
    [" ", "}"],
  ]);
});

test("lines far from any change are omitted", () => {
  const many = Array.from({ length: 20 }, (_, at) => `line ${at}`);
  const shown = withContext(diff(many.join("\n"), many.with(10, "other").join("\n")));
  assert.equal(shown.filter((one) => one === null).length, 2);
  assert.deepEqual(shown.slice(0, 2), [null, [" ", "line 7"]]);
  assert.equal(shown.length, 2 + 3 + 2 + 3);
});

test("numbers keep their notation and precision", () => {
  for (const number of ["1.0", "12345678901234567890", "1e400", "-0", "0.1", "7"]) {
    assert.equal(JSON.stringify(parseJsonExact(`{"n":[${number}]}`)), `{"n":[${number}]}`);
  }
  assert.equal(parseJsonExact('{"n": 7}').n + 1, 8);
});
