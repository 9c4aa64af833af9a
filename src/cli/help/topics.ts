import { listPages, type Page, readPage, readTables, type TableRow } from "../../docs.ts";

/**
 * What `--json` prints for the topics that programs read as data; of a file for people, its JSON Schema. For
 * every other topic it prints the page.
 */
const documents: Readonly<Record<string, (tables: TableRow[][], text: string) => unknown>> = {
  "exit-codes": ([codes = []]) => codes.map((row) => ({ ...row, code: Number(row.code) })),
  environment: ([variables = []]) => variables.map((row) => ({ ...row, flag: row.flag || null })),
  output: ([stdout = [], places = [], error = [], events = []]) => ({
    stdout: meanings(stdout),
    places: meanings(places),
    error: meanings(error),
    events: meanings(events),
  }),
  directives: ([directives = []]) => directives,
  "serve-config": async () => (await import("../serve/engines.ts")).loadConfigSchema(),
  project: async () => {
    const { loadProjectSchema } = await import("../../connect/project-schema.ts");
    return (await import("zod")).toJSONSchema(await loadProjectSchema(), { io: "input" });
  },
  agents: ([codes = []], page) => ({
    page,
    actions: Object.fromEntries(codes.map((row) => [row.name, row["what to do"]])),
  }),
};

/** The topics of `vidgen help <topic>`, by who reads them. */
export const topicNames = {
  "For people": [
    "never-twice",
    "cost",
    "output",
    "exit-codes",
    "environment",
    "project",
    "batch",
    "film",
    "ci",
    "windows",
    "glossary",
  ],
  "For programs": ["agents", "library", "callbacks", "api"],
  "For your own service": [
    "local-service",
    "page",
    "directives",
    "real-models",
    "serve-config",
    "accounts",
    "several-machines",
    "metrics",
  ],
};

/** The topics, one per line, with a summary. */
export function formatTopics(): string {
  const width = Math.max(...listPages().map((name) => name.length));
  const line = (name: string) => `  ${name.padEnd(width)}  ${readPage(name).title}`;
  return Object.entries(topicNames)
    .map(([who, names]) => [`${who}:`, ...names.map(line)].join("\n"))
    .join("\n\n");
}

/** All topics of `vidgen help <topic>`, by name. */
export function readTopics(): Page[] {
  return listPages().map(readPage);
}

/** What `--json` prints for a topic. */
export async function topicDocument({ name, text }: Page): Promise<unknown> {
  return documents[name]?.(readTables(text), text) ?? { page: text };
}

/** The topics that are data, with their names in `vidgen help --json`, such as `exit_codes`. */
export async function topicsAsData(): Promise<Record<string, unknown>> {
  const names = Object.keys(documents);
  const found = await Promise.all(names.map((name) => topicDocument(readPage(name))));
  return Object.fromEntries(names.map((name, index) => [name.replace("-", "_"), found[index]]));
}

/** Turns a table of two columns into an object. */
function meanings(rows: readonly TableRow[]): Record<string, string> {
  return Object.fromEntries(rows.map((row) => Object.values(row)));
}
