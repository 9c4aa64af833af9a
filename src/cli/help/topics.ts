import { listPages, type Page, readPage, readTables, type TableRow } from "../../docs.ts";

/** What `--json` prints for the topics that programs read as data. For every other topic it prints the page. */
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
  "serve-config": readSchema,
  project: readSchema,
  agents: ([codes = []], page) => ({
    page,
    actions: Object.fromEntries(codes.map((row) => [row.name, row["what to do"]])),
  }),
};

/** The schema at the end of a page, for an editor. */
function readSchema(_: unknown, page: string): unknown {
  const fence = "```json";
  return JSON.parse(page.slice(page.lastIndexOf(fence) + fence.length, page.lastIndexOf("```")));
}

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
export function topicDocument({ name, text }: Page): unknown {
  return documents[name]?.(readTables(text), text) ?? { page: text };
}

/** The topics that are data, with their names in `vidgen help --json`, such as `exit_codes`. */
export function topicsAsData(): Record<string, unknown> {
  const names = Object.keys(documents);
  return Object.fromEntries(names.map((name) => [name.replace("-", "_"), topicDocument(readPage(name))]));
}

/** Turns a table of two columns into an object. */
function meanings(rows: readonly TableRow[]): Record<string, string> {
  return Object.fromEntries(rows.map((row) => Object.values(row)));
}
