import type * as z from "zod";
import { refuse } from "./message.ts";

/** The client's names for fields of a schema, where they differ. */
export type FieldNames = { readonly [field: string]: string };

/**
 * Parses a client's value by a schema. Throws a 400 that says which field is wrong, and why. Its code is `invalid_` and the field's name, or the
 * one in `codes`.
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

function typeMessage(issue: {
  code?: string | undefined;
  input?: unknown;
  expected?: unknown;
  keys?: unknown;
}): string | undefined {
  if (issue.code === "unrecognized_keys") return `has no field ${issue.keys}`;
  if (issue.code !== "invalid_type") return undefined;
  if (issue.input === undefined) return "is missing";
  return `must be ${/^[ao]/.test(String(issue.expected)) ? "an" : "a"} ${issue.expected}`;
}
