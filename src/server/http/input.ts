import type * as z from "zod";
import { refuse } from "./message.ts";

/** What a client calls fields of a schema, where it has other names for them. */
export type FieldNames = { readonly [field: string]: string };

/**
 * Returns what the schema makes of a value from outside. Throws a 400 that says what is wrong with which field. `codes` has the end of its code
 * where that is not the field's name.
 */
export function parse<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  { names = {}, codes = names }: { names?: FieldNames | undefined; codes?: FieldNames } = {},
): z.infer<Schema> {
  const parsed = schema.safeParse(value, { error: (issue) => typeMessage(issue) });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const [first = "", ...rest] = issue?.path.map(String) ?? [];
  const field = [names[first] ?? first, ...rest].join(".") || "the body";
  throw refuse(400, `invalid_${(codes[first] ?? first) || "body"}`, `${field} ${issue?.message}`);
}

function typeMessage(issue: { code?: string | undefined; input?: unknown; expected?: unknown }): string | undefined {
  if (issue.code !== "invalid_type") return undefined;
  if (issue.input === undefined) return "is missing";
  return `must be ${/^[ao]/.test(String(issue.expected)) ? "an" : "a"} ${issue.expected}`;
}
