// Line-by-line differences between two texts.

type DiffLine = [kind: " " | "-" | "+", line: string];

const MAX_PAIRS = 4e6; // maximum number of line pairs to compare

// Returns each line with its kind: " " in both texts, "-" only in `before`, "+" only in `after`.
export function diff(before: string, after: string): DiffLine[] {
  const [one, other] = [before.split("\n"), after.split("\n")];
  let from = 0;
  while (from < one.length && from < other.length && one[from] === other[from]) {
    from += 1;
  }
  let end = 0;
  while (end < one.length - from && end < other.length - from && one.at(-1 - end) === other.at(-1 - end)) {
    end += 1;
  }
  const same = (lines: string[]): DiffLine[] => lines.map((line) => [" ", line]);
  const middle = changedLines(one.slice(from, one.length - end), other.slice(from, other.length - end));
  return [...same(one.slice(0, from)), ...middle, ...same(one.slice(one.length - end))];
}

// Compares by longest common subsequence. If the texts are too long for this, all lines count as changed.
function changedLines(one: string[], other: string[]): DiffLine[] {
  if (one.length * other.length > MAX_PAIRS) {
    return [...one.map((line): DiffLine => ["-", line]), ...other.map((line): DiffLine => ["+", line])];
  }
  const width = other.length + 1;
  const common = new Uint32Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        one[i] === other[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      found.push([" ", one[i]]);
      i += 1;
      j += 1;
    } else if (j === other.length || (i < one.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      found.push(["-", one[i]]);
      i += 1;
    } else {
      found.push(["+", other[j]]);
      j += 1;
    }
  }
  return found;
}

const CONTEXT_LINES = 3;

// Replaces each run of unchanged lines far from a change with null.
export function withContext(lines: readonly DiffLine[]): (DiffLine | null)[] {
  const isNearChange = lines.map((_, at) =>
    lines.slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1).some(([kind]) => kind !== " "),
  );
  const shown = isNearChange.map(
    (one, at) => one || (isNearChange[at - 1] !== false && isNearChange[at + 1] !== false),
  ); // a single unchanged line is not replaced
  return lines.flatMap((line, at) => (shown[at] ? [line] : at === 0 || shown[at - 1] ? [null] : []));
}
