// Titles of errors.

const MAX_LENGTH = 120;

// Returns the first line of an error's message, shortened after a word, or the error's type if it has no message.
export function errorTitle({ type, message }: { type: string; message: string }) {
  const [line] = message.trim().split("\n", 1);
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH).replace(/\s+\S*$/, "")}…` : line || type;
}
