// Where a cluster's documents are drawn, and how its links run. Run by test_page_layout.py.

import assert from "node:assert/strict";
import { test } from "node:test";

const { arranged, BOX, paths } = await import(process.env.LAYOUT_MODULE);

const paper = (id, type) => ({ id, type });
const link = (a, b) => ({ a, b });
const TRADE = [paper("i1", "invoice"), paper("d1", "delivery_note"), paper("o", "purchase_order"), paper("d2", "delivery_note"), paper("i2", "invoice")];
const LINKS = [link("o", "d1"), link("o", "d2"), link("d1", "i2"), link("d2", "i1"), link("i1", "o")];

// The points that a path names, of its curves the ends alone.
function points(path) {
  const found = [];
  for (const [, command, numbers] of path.matchAll(/([MCH])([^MCH]*)/g)) {
    const values = numbers.trim().split(" ").map(Number);
    found.push(command === "H" ? [values[0], found.at(-1)[1]] : values.slice(-2));
  }
  return found;
}

const isInside = ([x, y], { x: left, y: top }) => x > left && x < left + BOX.width && y > top && y < top + BOX.height;

test("kinds stand in the order of a trade, and what nobody knows comes last", () => {
  const { columns } = arranged([...TRADE, paper("x", "other")], []);
  assert.deepEqual(columns.map((column) => column.type), ["purchase_order", "delivery_note", "invoice", "other"]);
});

test("no two documents stand on one another, and none beyond the edge", () => {
  const { place, width, height } = arranged(TRADE, LINKS);
  const boxes = [...place.values()];
  boxes.forEach((one, number) => {
    assert.ok(one.x >= 0 && one.y >= 0 && one.x + BOX.width <= width && one.y + BOX.height <= height);
    boxes.slice(number + 1).forEach((other) =>
      assert.ok(Math.abs(one.x - other.x) >= BOX.width || Math.abs(one.y - other.y) >= BOX.height));
  });
});

test("documents stand beside those that they are linked to", () => {
  const { place } = arranged(TRADE, LINKS);
  const isAbove = (one, other) => place.get(one).y < place.get(other).y;
  assert.equal(isAbove("d1", "d2"), isAbove("i2", "i1"));
});

test("the same cluster is always drawn the same", () => {
  assert.deepEqual([...arranged(TRADE, LINKS).place], [...arranged(TRADE, LINKS).place]);
});

test("a link begins and ends at its documents, and goes around those between", () => {
  const found = arranged(TRADE, LINKS);
  const run = paths(LINKS, found);
  LINKS.forEach(({ a, b }, number) => {
    const [from, to] = [found.place.get(a), found.place.get(b)].sort((one, other) => one.x - other.x);
    const along = points(run[number]);
    assert.deepEqual(along[0], [from.x + BOX.width, from.y + BOX.height / 2]);
    assert.deepEqual(along.at(-1), [to.x, to.y + BOX.height / 2]);
    for (const box of found.place.values()) {
      assert.ok(!along.some((point) => isInside(point, box)));
    }
  });
});

test("links that pass at one place do not lie on one another", () => {
  const papers = [paper("o1", "purchase_order"), paper("d", "delivery_note"), paper("i1", "invoice"), paper("i2", "invoice")];
  const links = [link("o1", "i1"), link("o1", "i2"), link("o1", "d")];
  const run = paths(links, arranged(papers, links));
  assert.notEqual(run[0], run[1]);
});

test("documents of one kind are linked around their side", () => {
  const papers = [paper("i1", "invoice"), paper("i2", "invoice")];
  const links = [link("i1", "i2")];
  const { place, width } = arranged(papers, links);
  const [path] = paths(links, { ...arranged(papers, links), place });
  const furthest = Math.max(...path.match(/-?\d+(\.\d+)?/g).map(Number));
  assert.ok(furthest > place.get("i1").x + BOX.width && furthest <= width);
});

test("a link to what is not drawn is left out", () => {
  assert.deepEqual(paths([link("i1", "elsewhere")], arranged(TRADE, [link("i1", "elsewhere")])), [null]);
});

test("a document alone, and none at all, can be drawn", () => {
  assert.equal(arranged([paper("i1", "invoice")], []).place.size, 1);
  assert.equal(arranged([], []).place.size, 0);
});
