import { usage } from "../errors.ts";

const names = ["slug", "model", "id", "date", "n"] as const;

/** What a template for `-o` may hold in braces. */
export type Name = (typeof names)[number];

const anyName = names.join("|");

const hint = `In braces it takes ${names.map((name) => `{${name}}`).join(", ")}.`;

/** Throws `usage` for a name in braces that there is not, for half a pair around one that there is, and for an `{id}` in a folder, which nobody can make before it is paid for. */
export function checkTemplate(place: string): void {
  for (const [, name = ""] of place.matchAll(/\{([^{}]*)\}/g)) {
    if (names.some((known) => known === name)) continue;
    throw usage(`-o knows no {${name}}.`, hint);
  }
  const [, half] = new RegExp(`\\{(${anyName})\\b(?!\\})`).exec(place) ?? [];
  if (half !== undefined) throw usage(`-o has {${half} without its other brace.`, hint);
  if (/\{id\}.*[/\\]/s.test(place))
    throw usage("-o takes {id} in the file's name alone: its folder has to be there before anything is paid for.");
}

/** Whether two generations never come to one name there. */
export function isDistinct(place: string): boolean {
  return /\{(id|n)\}/.test(place);
}

/** The template with these values in the place of their names; the other names stay. No value may be a path. */
export function fillIn(place: string, values: Partial<Record<Name, string>>): string {
  return place.replace(new RegExp(`\\{(${anyName})\\}`, "g"), (whole, name: Name) => values[name] ?? whole);
}
