// Layout of a cluster's documents and links. Run by test_page_layout.py.

import assert from "node:assert/strict";
import { test } from "node:test";

const { layoutNodes, BOX, edgePaths } = await import(process.env.LAYOUT_MODULE);

const doc = (id, type) => ({ id, type });
const link = (a, b) => ({ a, b });
const TRADE = [
  doc("i1", "invoice"),
  doc("d1", "delivery_note"),
  doc("o", "purchase_order"),
  doc("d2", "delivery_note"),
  doc("i2", "invoice"),
];
const LINKS = [link("o", "d1"), link("o", "d2"), link("d1", "i2"), link("d2", "i1"), link("i1", "o")];

// Points on a path. For curves, only the end points.
function points(path) {
  const found = [];
  for (const [, command, numbers] of path.matchAll(/([MCH])([^MCH]*)/g)) {
    const values = numbers.trim().split(" ").map(Number);
    found.push(command === "H" ? [values[0], found.at(-1)[1]] : values.slice(-2));
  }
  return found;
}

const isInside = ([x, y], { x: left, y: top }) => x > left && x < left + BOX.width && y > top && y < top + BOX.height;

test("columns follow the order of the business process, with unknown document types last", () => {
  const { columns } = layoutNodes([...TRADE, doc("x", "other")], []);
  assert.deepEqual(
    columns.map((column) => column.type),
    ["purchase_order", "delivery_note", "invoice", "other"],
  );
});

test("documents neither overlap nor exceed the drawing", () => {
  const { positions, width, height } = layoutNodes(TRADE, LINKS);
  const boxes = [...positions.values()];
  boxes.forEach((one, number) => {
    assert.ok(one.x >= 0 && one.y >= 0 && one.x + BOX.width <= width && one.y + BOX.height <= height);
    for (const other of boxes.slice(number + 1)) {
      assert.ok(Math.abs(one.x - other.x) >= BOX.width || Math.abs(one.y - other.y) >= BOX.height);
    }
  });
});

test("matched documents have the same order in each column", () => {
  const { positions } = layoutNodes(TRADE, LINKS);
  const isAbove = (one, other) => positions.get(one).y < positions.get(other).y;
  assert.equal(isAbove("d1", "d2"), isAbove("i2", "i1"));
});

test("layout is deterministic", () => {
  assert.deepEqual([...layoutNodes(TRADE, LINKS).positions], [...layoutNodes(TRADE, LINKS).positions]);
});

test("a link connects its documents and avoids other documents", () => {
  const found = layoutNodes(TRADE, LINKS);
  const run = edgePaths(LINKS, found);
  LINKS.forEach(({ a, b }, number) => {
    const [from, to] = [found.positions.get(a), found.positions.get(b)].sort((one, other) => one.x - other.x);
    const along = points(run[number]);
    assert.deepEqual(along[0], [from.x + BOX.width, from.y + BOX.height / 2]);
    assert.deepEqual(along.at(-1), [to.x, to.y + BOX.height / 2]);
    for (const box of found.positions.values()) {
      assert.ok(!along.some((point) => isInside(point, box)));
    }
  });
});

test("links through the same gap have different paths", () => {
  const docs = [doc("o1", "purchase_order"), doc("d", "delivery_note"), doc("i1", "invoice"), doc("i2", "invoice")];
  const links = [link("o1", "i1"), link("o1", "i2"), link("o1", "d")];
  const run = edgePaths(links, layoutNodes(docs, links));
  assert.notEqual(run[0], run[1]);
});

test("a link between documents of one type passes beside them", () => {
  const docs = [doc("i1", "invoice"), doc("i2", "invoice")];
  const links = [link("i1", "i2")];
  const { positions, width } = layoutNodes(docs, links);
  const [path] = edgePaths(links, { ...layoutNodes(docs, links), positions });
  const furthest = Math.max(...path.match(/-?\d+(\.\d+)?/g).map(Number));
  assert.ok(furthest > positions.get("i1").x + BOX.width && furthest <= width);
});

test("a link to a document that is not drawn is skipped", () => {
  assert.deepEqual(edgePaths([link("i1", "elsewhere")], layoutNodes(TRADE, [link("i1", "elsewhere")])), [null]);
});

test("a single document and an empty cluster can be drawn", () => {
  assert.equal(layoutNodes([doc("i1", "invoice")], []).positions.size, 1);
  assert.equal(layoutNodes([], []).positions.size, 0);
});
