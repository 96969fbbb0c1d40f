// Browser features that TypeScript does not declare yet.

interface JSON {
  // Creates a number that keeps its notation. Missing in older browsers.
  rawJSON?(text: string): object;
  isRawJSON?(value: unknown): boolean;
  parse(text: string, reviver: (name: string, value: unknown, context?: { source?: string }) => unknown): unknown;
}
