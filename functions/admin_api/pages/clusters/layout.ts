// Layout of a cluster's graph: positions of documents in columns, and paths of links. Pure functions.

type DocumentType = string | null | undefined;
type Placed = { id: string; type?: DocumentType };
// Ids of the documents that a link connects.
export type Ends = { a: string; b: string };
export type Point = { x: number; y: number };
type Column<Doc> = { type: DocumentType; docs: Doc[] };
type Layout<Doc> = { columns: Column<Doc>[]; positions: Map<string, Point>; width: number; height: number };

const ORDER: DocumentType[] = [
  "contract",
  "purchase_order",
  "order_confirmation",
  "delivery_note",
  "goods_receipt",
  "invoice",
  "credit_note",
];
export const BOX = { width: 232, height: 56 };
const GAP = { x: 84, y: 20 };
const MARGIN = 16;
const HEAD = 40;
const LANE = 4; // distance between lines that pass a box on the same side
const ROUNDS = 4; // passes that move boxes toward linked boxes

const columnOf = (type: DocumentType) => (ORDER.includes(type) ? ORDER.indexOf(type) : ORDER.length);

// Computes the documents' positions by id. Documents and links in the same order always get the same layout.
export function layoutNodes<Doc extends Placed>(docs: readonly Doc[], links: readonly Ends[]): Layout<Doc> {
  const types = [...new Set(docs.map((doc) => doc.type))].sort((a, b) => columnOf(a) - columnOf(b));
  const columns = types.map((type): Column<Doc> => ({ type, docs: docs.filter((doc) => doc.type === type) }));
  const rows = new Map<string, number>();
  const rowOf = (id: string) => rows.get(id) as number;
  const numberRows = (column: Column<Doc>) => {
    column.docs.forEach((doc, row) => {
      rows.set(doc.id, row - (column.docs.length - 1) / 2);
    });
  };
  columns.forEach(numberRows);
  const neighbors = new Map(docs.map((doc): [string, string[]] => [doc.id, []]));
  for (const { a, b } of links) {
    neighbors.get(a)?.push(b);
    neighbors.get(b)?.push(a);
  }
  const meanRow = ({ id }: Placed) => {
    const linkedRows = (neighbors.get(id) ?? []).filter((other) => rows.has(other)).map(rowOf);
    return linkedRows.length ? linkedRows.reduce((sum, row) => sum + row, 0) / linkedRows.length : rowOf(id);
  };
  for (let round = 0; round < ROUNDS; round++) {
    for (const column of round % 2 ? [...columns].reverse() : columns) {
      const targetRows = new Map(column.docs.map((doc) => [doc.id, meanRow(doc)]));
      const targetRow = (doc: Doc) => targetRows.get(doc.id) as number;
      column.docs.sort((one, other) => targetRow(one) - targetRow(other)); // sort() is stable
      numberRows(column);
    }
  }
  const most = Math.max(...columns.map((column) => column.docs.length), 1);
  const height = HEAD + most * (BOX.height + GAP.y) + MARGIN;
  const positions = new Map<string, Point>();
  columns.forEach((column, at) => {
    const top = HEAD + ((most - column.docs.length) * (BOX.height + GAP.y)) / 2;
    column.docs.forEach((doc, row) => {
      positions.set(doc.id, { x: MARGIN + at * (BOX.width + GAP.x), y: top + row * (BOX.height + GAP.y) });
    });
  });
  const inside = columns.some((column) =>
    links.some(({ a, b }) => [a, b].every((id) => column.docs.some((one) => one.id === id))),
  );
  const width = 2 * MARGIN + columns.length * (BOX.width + GAP.x) - GAP.x + (inside ? GAP.x : 0);
  return { columns, positions, width, height };
}

const pointOf = (positions: Map<string, Point>, id: string) => positions.get(id) as Point;

const curve = (x1: number, y1: number, x2: number, y2: number) => {
  const bend = (x2 - x1) / 2;
  return `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
};

// Returns the y coordinate at which a line passes a column, close to `y`: between, above or below the column's boxes.
function laneOf(column: Column<Placed>, positions: Map<string, Point>, y: number) {
  const tops = column.docs.map((doc) => pointOf(positions, doc.id).y);
  const lanes = [tops[0] - GAP.y / 2, ...tops.map((top) => top + BOX.height + GAP.y / 2)];
  if (y < lanes[0] || y > lanes[lanes.length - 1]) {
    return y;
  }
  return lanes.reduce((best, lane) => (Math.abs(lane - y) < Math.abs(best - y) ? lane : best));
}

// Returns the SVG paths of the links in order, with null for a link to a document that is not drawn. A line runs from
// the right side of a box to the left side of another, around the boxes between them. A line between two boxes in one
// column runs around their right side.
export function edgePaths(
  links: readonly Ends[],
  { columns, positions }: Pick<Layout<Placed>, "columns" | "positions">,
): (string | null)[] {
  const lineCounts = new Map(); // number of lines per lane
  return links.map(({ a, b }) => {
    if (!positions.has(a) || !positions.has(b)) {
      return null;
    }
    const [from, to] = [pointOf(positions, a), pointOf(positions, b)].sort((one, other) => one.x - other.x);
    let [x, y] = [from.x + BOX.width, from.y + BOX.height / 2];
    const [endX, endY] = [to.x, to.y + BOX.height / 2];
    let path = `M${x} ${y}`;
    if (from.x === to.x) {
      return `${path}C${x + GAP.x * 0.8} ${y} ${x + GAP.x * 0.8} ${endY} ${x} ${endY}`;
    }
    for (const column of columns) {
      const left = pointOf(positions, column.docs[0].id).x;
      if (left > from.x && left < to.x) {
        const target = y + ((endY - y) * (left - x)) / (endX - x);
        const lane = laneOf(column, positions, target);
        const count = lineCounts.get(`${left} ${lane}`) ?? 0;
        lineCounts.set(`${left} ${lane}`, count + 1);
        const at = lane + (count % 2 ? -1 : 1) * Math.ceil(count / 2) * LANE;
        path += `${curve(x, y, left, at)}H${left + BOX.width}`;
        [x, y] = [left + BOX.width, at];
      }
    }
    return `${path}${curve(x, y, endX, endY)}`;
  });
}
