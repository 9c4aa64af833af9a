import type { Create } from "./fake.ts";

/** The field that breaks a rule, if one does. */
export function findInvalid(
  fields: Create["fields"],
  rules: Record<string, (value: unknown) => boolean>,
): string | undefined {
  return Object.keys(rules).find((field) => field in fields && !rules[field]?.(fields[field]));
}

/** Pydantic takes a number also as a text. */
export const isInteger = (value: unknown) => /^-?\d+$/.test(String(value));
export const isNumber = (value: unknown) => /^-?\d+(\.\d+)?$/.test(String(value));
export const isText = (value: unknown) => typeof value === "string";
export const isSize = (value: unknown) => /^\d+x\d+$/.test(String(value));
