import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import * as z from "zod";
import { systemReason, usage } from "../errors.ts";
import { describeJsonFault, jsonHint } from "../protocol/json-fault.ts";
import { findSimilar } from "../protocol/models.ts";
import { toUtf8 } from "../protocol/text.ts";
import { checkRepeats, type EngineSpec, kindNames, readPackage, readServer } from "./engines/spec.ts";
import type { EngineOrigin } from "./store/generations.ts";

/** Messages for zod that do not repeat the value, because it may be a key in the wrong place. */
const must = (what: string) => ({
  error: ({ input }: { input?: unknown }) => (input === undefined ? "is missing" : `must be ${what}`),
});
const text = (what = "a non-empty string") => z.string(must(what)).min(1, must(what));
const whole = (least: number, most: number) => {
  const what = must(`a whole number from ${least} to ${most}`);
  return z.int(what).min(least, what).max(most, what);
};
const address = () => z.url({ protocol: /^https?$/, ...must("an http(s) URL") });
const toggle = () => z.boolean(must("true or false"));
const choice = <const Word extends string>(words: readonly Word[]) => z.enum(words, must(`one of ${words.join(", ")}`));
const time = () =>
  z.string(must("a time such as 30d, 12h or 90s")).regex(/^(\d+[ydhms])+$/, must("a time such as 30d, 12h or 90s"));

const engine = z.strictObject(
  {
    kind: choice(kindNames).optional().describe("The kind of the engine; by default, it is detected from the URL."),
    url: address().optional().describe("The address of the server; a provider's kind has its own address."),
    models: z
      .array(text("the name of a model"), must("a list of names of models"))
      .min(1, must("a list of at least one model"))
      .optional()
      .describe("The models that the engine makes; by default, those that no other engine names."),
    jobs: whole(1, 1_000)
      .optional()
      .describe("How many videos the engine makes at once; the default depends on its kind."),
    upstream_model: text().optional().describe("The name of the model at the server."),
    workflow: text("the name of a file").optional().describe("For comfyui: the file of the workflow."),
    package: text("the name of an npm package").optional().describe("For ai-sdk: the npm package of the provider."),
    key_env: z
      .string(must("the name of an environment variable"))
      .regex(/^[A-Za-z_]\w*$/, must("the name of an environment variable"))
      .optional()
      .describe("The environment variable that contains the key."),
    key_file: text("the name of a file").optional().describe("The file that contains the key."),
  },
  must("an object"),
);

const port = () => whole(0, 65_535);
const network = z.strictObject(
  { network: text("a network such as 10.0.0.0/8"), accounts: z.array(text("the name of an account")).optional() },
  must("an object"),
);

/** What `serve --config` reads. Apart from the engines, a field is the flag of that name. */
export const configSchema = z
  .strictObject(
    {
      $schema: z.string().optional().describe("The address of this schema, for editors."),
      engines: z.array(engine, must("a list of engines")).min(1, must("a list of at least one engine")),
      engine_timeout: time().optional(),
      keep_upstream: toggle().optional(),
      pace: choice(["fast", "realistic"]).optional(),
      directives: toggle().optional(),
      passthrough: toggle().optional(),
      host: text("a host name or an address").optional(),
      port: port().optional(),
      media_port: port().optional(),
      metrics_port: z.union([port(), z.string().regex(/^([^\s]+:)?\d+$/)], must("a port, or [host:]port")).optional(),
      allow_remote: toggle().optional(),
      allow_network: z.array(network, must("a list of networks")).optional(),
      name: text("a host name without a port").optional(),
      public_url: address().optional(),
      public_media_url: address().optional(),
      cors: z.array(address(), must("a list of origins")).optional(),
      trust_proxy: z.array(text("a network such as 10.0.0.5/32"), must("a list of networks")).optional(),
      grace: time().optional(),
      media: text("a folder, or s3://bucket/prefix").optional(),
      media_redirect: toggle().optional(),
      keep: time().optional(),
      keep_records: time().optional(),
      credits: whole(0, Number.MAX_SAFE_INTEGER).optional(),
      credits_per: z
        .record(z.string(), whole(0, Number.MAX_SAFE_INTEGER), must("an object of credits by model"))
        .optional(),
      refunds: toggle().optional(),
      page: toggle().optional(),
      log: choice(["text", "json"]).optional(),
      webhook_log: toggle().optional(),
    },
    must("an object"),
  )
  .meta({ title: "The file of vidgen serve --config" });

type EngineFields = z.infer<typeof engine>;

/** A file of `serve --config`: its engines, and its other fields as the parsed flags of the same names. */
export type ServeConfig = {
  file: string;
  engines: EngineSpec[];
  options: Record<string, unknown> & { creditsPer?: string[] };
  /** The other fields, unchanged, to compare them with a later reading. */
  settings: Readonly<Record<string, unknown>>;
  /** Returns a message about this file: texts that look like keys are hidden, and flags are named as the fields of the file. */
  explain(message: string): string;
};

/** Reads a file of `serve --config`. Throws `usage` with the path of the first fault, such as "engines[3].jobs"; no value is repeated. */
export function readConfig(file: string): ServeConfig {
  const value = parse(file);
  const { success, data, error } = configSchema.safeParse(value);
  if (!success) throw faultOf(error.issues, value, file);
  const { $schema: _, engines: entries, ...settings } = data;
  const explain = createExplain(file, value, settings);
  try {
    const engines = entries.map((each, index) => readEngine(each, `engines[${index}]`, dirname(resolve(file))));
    checkRepeats(engines);
    return { file, engines, options: optionsOf(settings, dirname(resolve(file))), settings, explain };
  } catch (error) {
    if (error instanceof Error) error.message = explain(error.message);
    throw error;
  }
}

function parse(file: string): unknown {
  let source: string;
  try {
    source = String(toUtf8(readFileSync(file)));
  } catch (cause) {
    throw usage(`Cannot read ${file}: ${systemReason(cause)}.`);
  }
  try {
    return JSON.parse(source);
  } catch {
    throw usage(`${file} is ${describeJsonFault(source)}.`, jsonHint);
  }
}

type Path = readonly PropertyKey[];

function faultOf(issues: readonly z.core.$ZodIssue[], value: unknown, file: string) {
  const [issue] = issues;
  if (issue?.code === "unrecognized_keys") {
    const [name = ""] = issue.keys;
    const isName = /^[A-Za-z_$][\w-]{0,23}$/.test(name);
    const where = pathOf([...issue.path, isName ? name : "..."]);
    const similar = findSimilar(name, fieldsAt(issue.path));
    const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
    return usage(`${file}: ${where} is not a field of this file.${guess}`, hintFor(name));
  }
  const path = issue?.path ?? [];
  const written = path.reduce<unknown>((inner, name) => Object(inner)[name], value);
  const similar =
    issue?.code === "invalid_value" && typeof written === "string"
      ? findSimilar(written, issue.values.map(String))
      : undefined;
  const guess = similar === undefined ? "" : ` Did you mean ${similar}?`;
  return usage(`${file}: ${path.length === 0 ? "it" : pathOf(path)} ${issue?.message}.${guess}`);
}

function pathOf(path: Path): string {
  return path.reduce<string>((text, name) => {
    if (typeof name === "number") return `${text}[${name}]`;
    return text === "" ? String(name) : `${text}.${String(name)}`;
  }, "");
}

/** The fields of the object at a path: the file itself, an entry of `engines`, or an entry of `allow_network`. */
function fieldsAt([list]: Path): string[] {
  if (list === undefined) return Object.keys(configSchema.shape);
  return Object.keys(list === "engines" ? engine.shape : network.shape);
}

function hintFor(name: string): string | undefined {
  if (name === "database") return "Set VIDGEN_DATABASE_URL: the address has a password, which is not for this file.";
  if (/key|token|secret|password|auth/i.test(name))
    return "Do not write keys in this file: name the variable that contains the key in key_env, or the file in key_file.";
  return undefined;
}

/** Reads an engine as `--engine` does. Paths are relative to the folder of the file. */
function readEngine(
  { kind, url, models, jobs, upstream_model, workflow, package: packageName, key_env, key_file }: EngineFields,
  label: string,
  folder: string,
): EngineSpec {
  const refuse = (field: string, why: string) => usage(`${label}.${field} ${why}.`);
  if (key_env !== undefined && key_file !== undefined) throw refuse("key_file", "and key_env cannot be combined");
  if (workflow !== undefined && kind !== "comfyui") throw refuse("workflow", "works only with the kind comfyui");
  if (packageName !== undefined && kind !== "ai-sdk") throw refuse("package", "works only with the kind ai-sdk");
  const hasKey = key_env !== undefined || key_file !== undefined;
  if (hasKey && (kind === "preview" || kind === "ai-sdk"))
    throw refuse(
      key_env === undefined ? "key_file" : "key_env",
      `is not for the kind ${kind}, which reads its own key`,
    );
  if (kind === "ai-sdk") {
    if (packageName === undefined) throw refuse("package", "is missing");
    if (!/^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/i.test(packageName))
      throw refuse("package", "must be the name of an npm package, not a path");
    if (models === undefined) throw refuse("models", "is missing");
    if (upstream_model === undefined) throw refuse("upstream_model", "is missing");
    return { ...readPackage({ label, models, packageName, upstreamModel: upstream_model }), jobs };
  }
  if (kind === "comfyui" && workflow === undefined) throw refuse("workflow", "is missing");
  if (kind === "comfyui" && models === undefined) throw refuse("models", "is missing");
  if (kind === undefined && url === undefined) throw refuse("kind", "or url is missing");
  if (kind === "preview" && url !== undefined) throw refuse("url", "is not for the kind preview");
  if (kind === "preview" && upstream_model !== undefined) throw refuse("upstream_model", "is not for the kind preview");
  const variable = key_env === undefined ? undefined : { variable: key_env };
  const key = key_file === undefined ? variable : { file: resolve(folder, key_file) };
  // The model of ComfyUI is the file of its workflow.
  const upstreamModel = workflow === undefined ? upstream_model : resolve(folder, workflow);
  return { ...readServer({ label, models, kind, url, upstreamModel, key }), jobs };
}

/** Reads an engine that `originOf` wrote in an earlier process, with full paths. Throws `usage`. */
export function readOrigin(origin: EngineOrigin): EngineSpec {
  return readEngine(engine.parse(origin), "the engine", "/");
}

type ConfigSettings = Omit<z.infer<typeof configSchema>, "$schema" | "engines">;

/** Converts the fields to options of the command line. */
function optionsOf({ allow_network, credits_per, media, ...settings }: ConfigSettings, folder: string) {
  const written = Object.entries(settings).flatMap(([name, value]) => {
    // `false` means that the flag is not given, except for --no-refunds and --no-page.
    if (value === undefined || (value === false && name !== "refunds" && name !== "page")) return [];
    const option = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    return [[option, typeof value === "number" ? String(value) : value]];
  });
  return {
    ...Object.fromEntries(written),
    ...(media !== undefined && { media: media.includes("://") ? media : resolve(folder, media) }),
    ...(allow_network && { allowNetwork: allow_network.map(({ network, accounts = [] }) => ({ network, accounts })) }),
    ...(credits_per && { creditsPer: Object.entries(credits_per).map(([model, credits]) => `${model}=${credits}`) }),
  };
}

function createExplain(file: string, value: unknown, settings: object) {
  const possibleKeys = textsIn(value).filter((each) => /^(?=.*\d)(?=.*[a-z])[\w-]{20,}$/i.test(each));
  const isInFile = (flag: string) => flag.replaceAll("-", "_") in settings;
  return (message: string): string => {
    const named = message.replace(/--([a-z-]+)/g, (all, flag: string) =>
      isInFile(flag) ? flag.replaceAll("-", "_") : all,
    );
    const shown = possibleKeys.reduce((text, each) => text.replaceAll(each, "[key]"), named);
    // A message about a field of the file names the file.
    return shown.startsWith("engines[") || shown !== message ? `${file}: ${shown}` : shown;
  };
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
