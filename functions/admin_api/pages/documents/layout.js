// Where a graph's documents stand and how its links run: columns in the order of a trade. Pure. Pure.

const ORDER = ["contract", "purchase_order", "order_confirmation", "delivery_note", "goods_receipt", "invoice", "credit_note"];
export const BOX = { width: 196, height: 56 };
const GAP = { x: 84, y: 20 };
const MARGIN = 16;
const HEAD = 40;
const LANE = 4; // between lines that pass a box on the same side
const ROUNDS = 4; // in which boxes move towards those that they are linked to

const columnOf = (type) => (ORDER.includes(type) ? ORDER.indexOf(type) : ORDER.length);

// Where each document stands: { columns: [{ type, papers }], place: { x, y } by id, width, height }. The same documents
// and links, in the same order, always stand the same.
export function arranged(papers, links) {
  const types = [...new Set(papers.map((paper) => paper.type))].sort((a, b) => columnOf(a) - columnOf(b));
  const columns = types.map((type) => ({ type, papers: papers.filter((paper) => paper.type === type) }));
  const rows = new Map();
  const number = (column) => column.papers.forEach((paper, row) => rows.set(paper.id, row - (column.papers.length - 1) / 2));
  columns.forEach(number);
  const near = new Map(papers.map((paper) => [paper.id, []]));
  for (const { a, b } of links) {
    near.get(a)?.push(b);
    near.get(b)?.push(a);
  }
  const middle = ({ id }) => {
    const found = near.get(id).filter((other) => rows.has(other)).map((other) => rows.get(other));
    return found.length ? found.reduce((sum, row) => sum + row, 0) / found.length : rows.get(id);
  };
  for (let round = 0; round < ROUNDS; round++) {
    for (const column of round % 2 ? [...columns].reverse() : columns) {
      const wanted = new Map(column.papers.map((paper) => [paper.id, middle(paper)]));
      column.papers.sort((one, other) => wanted.get(one.id) - wanted.get(other.id)); // a sort that keeps ties in order
      number(column);
    }
  }
  const most = Math.max(...columns.map((column) => column.papers.length), 1);
  const height = HEAD + most * (BOX.height + GAP.y) + MARGIN;
  const place = new Map();
  columns.forEach((column, at) => {
    const top = HEAD + ((most - column.papers.length) * (BOX.height + GAP.y)) / 2;
    column.papers.forEach((paper, row) =>
      place.set(paper.id, { x: MARGIN + at * (BOX.width + GAP.x), y: top + row * (BOX.height + GAP.y) }));
  });
  const inside = columns.some((column) => links.some(({ a, b }) => [a, b].every((id) => column.papers.some((one) => one.id === id))));
  const width = 2 * MARGIN + columns.length * (BOX.width + GAP.x) - GAP.x + (inside ? GAP.x : 0);
  return { columns, place, width, height };
}

const bent = (x1, y1, x2, y2) => {
  const bend = (x2 - x1) / 2;
  return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
};

// The height at which a line that wants to be at `y` passes a column: between its boxes, above, or below them.
function laneOf(column, place, y) {
  const tops = column.papers.map((paper) => place.get(paper.id).y);
  const lanes = [tops[0] - GAP.y / 2, ...tops.map((top) => top + BOX.height + GAP.y / 2)];
  if (y < lanes[0] || y > lanes.at(-1)) {
    return y;
  }
  return lanes.reduce((best, lane) => (Math.abs(lane - y) < Math.abs(best - y) ? lane : best));
}

// The paths of the links, in their order; null where an end is not drawn. A line goes from the right of a box to the
// left of another one, around the boxes between; in one column around the right side.
export function paths(links, { columns, place }) {
  const taken = new Map(); // how many lines pass at a place
  return links.map(({ a, b }) => {
    if (!place.has(a) || !place.has(b)) {
      return null;
    }
    const [from, to] = [place.get(a), place.get(b)].sort((one, other) => one.x - other.x);
    let [x, y] = [from.x + BOX.width, from.y + BOX.height / 2];
    const [endX, endY] = [to.x, to.y + BOX.height / 2];
    let path = `M${x} ${y}`;
    if (from.x === to.x) {
      return `${path}C${x + GAP.x * 0.8} ${y} ${x + GAP.x * 0.8} ${endY} ${x} ${endY}`;
    }
    for (const column of columns) {
      const left = place.get(column.papers[0].id).x;
      if (left > from.x && left < to.x) {
        const wanted = y + ((endY - y) * (left - x)) / (endX - x);
        const lane = laneOf(column, place, wanted);
        const count = taken.get(`${left} ${lane}`) ?? 0;
        taken.set(`${left} ${lane}`, count + 1);
        const at = lane + (count % 2 ? -1 : 1) * Math.ceil(count / 2) * LANE;
        path += `${bent(x, y, left, at)}H${left + BOX.width}`;
        [x, y] = [left + BOX.width, at];
      }
    }
    return `${path}${bent(x, y, endX, endY)}`;
  });
}
