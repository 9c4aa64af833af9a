import * as z from "zod";
import type { Services } from "../connect/services.ts";
import { usage } from "../errors.ts";
import { isRecord, parseJson } from "../protocol/json.ts";
import type { Folder } from "./folder.ts";
import type { createStarts } from "./starts.ts";

/** The context of a tool's call. */
export type ToolCall = {
  /** Aborts when the agent cancels the call, or the server ends. */
  signal: AbortSignal;
  /** Reports the progress of the call, if the agent requested that. */
  onProgress(seconds: number, message: string): void;
  /** Adds an image or a file to the result. */
  attach(attachment: ToolImage | ToolFile): void;
};

/** An image in a result, in base64. */
export type ToolImage = { type: "image"; mimeType: string; data: string };

/** A saved file in a result. */
export type ToolFile = { type: "resource_link"; uri: string; name: string; mimeType: string; size: number };

/** What a client may ask its user about a tool: the hints of the protocol, each false if it is left out. */
export type ToolHints = {
  /** Whether it changes nothing. */
  readOnly?: true;
  /** Whether it ends or deletes something. */
  destructive?: true;
  /** Whether it sends requests to a service. */
  openWorld?: true;
};

export type Tool = {
  name: string;
  /** The name that a person reads. */
  title: string;
  description: string;
  input: z.ZodObject;
  output: z.ZodObject;
  hints: ToolHints;
  /** Returns a value that matches `output`. Throws `usage` for arguments that do not match `input`. */
  run(args: unknown, call: ToolCall): Promise<Record<string, unknown>>;
};

export type ToolOptions = {
  services: Services;
  start: ReturnType<typeof createStarts>;
  folder: Folder;
  local?: boolean | undefined;
  baseUrl?: string | undefined;
};

type Definition<Input extends z.ZodObject, Output extends z.ZodObject> = Omit<Tool, "run"> & {
  input: Input;
  output: Output;
  run(input: z.output<Input>, call: ToolCall): Promise<z.input<Output>>;
};

/** Creates a tool that checks its arguments. */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  tool: Definition<Input, Output>,
): Tool {
  return {
    ...tool,
    async run(args, call) {
      const parsed = tool.input.safeParse(normalizeArguments(tool.input, args ?? {}));
      if (parsed.success) return tool.run(parsed.data, call);
      const faults = parsed.error.issues.map(({ path, message }) =>
        [path.join("."), message].filter(Boolean).join(": "),
      );
      throw usage(
        `The arguments are invalid: ${faults.join("; ")}.`,
        "Nothing was sent. Correct the arguments, and call the tool again.",
      );
    },
  };
}

/**
 * Reads arguments as agents write them: null or an empty text for an optional argument that is left out, a
 * number or true as text, and a list as one text, which is its only item unless it is an array in JSON.
 */
function normalizeArguments({ shape }: z.ZodObject, args: unknown): unknown {
  if (!isRecord(args)) return args;
  const given = Object.entries(args).filter(
    ([name, value]) => !((value === null || value === "") && shape[name] instanceof z.ZodOptional),
  );
  return Object.fromEntries(given.map(([name, value]) => [name, normalizeArgument(shape[name], value)]));
}

function normalizeArgument(schema: z.core.$ZodType | undefined, value: unknown): unknown {
  if (schema instanceof z.ZodOptional) return normalizeArgument(schema.unwrap(), value);
  if (typeof value !== "string") return value;
  const json = parseJson(value);
  if (schema instanceof z.ZodArray) return Array.isArray(json) ? json : [value];
  const isOfType =
    (schema instanceof z.ZodNumber && typeof json === "number") ||
    (schema instanceof z.ZodBoolean && typeof json === "boolean");
  return isOfType ? json : value;
}

export const chargedField = z.enum(["yes", "no"]).optional().describe("Whether it was charged, if that was stated.");

export const idField = z.string().min(1).max(200).describe("The id of the generation, as generate_video returned it.");
