// Browser features that TypeScript does not declare yet.

interface JSON {
  // Numbers that keep their notation. Absent in older browsers.
  rawJSON?(text: string): object;
  isRawJSON?(value: unknown): boolean;
  parse(text: string, reviver: (name: string, value: unknown, context?: { source?: string }) => unknown): unknown;
}
