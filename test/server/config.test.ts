import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import * as z from "zod";
import { readPage } from "../../src/docs.ts";
import { configSchema, readConfig } from "../../src/server/config.ts";
import { makeFolder } from "../folder.ts";
import { createWorld } from "../vidgen.ts";

function read(content: unknown) {
  const file = join(makeFolder(), "serve.json");
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return readConfig(file);
}

const gpu = { url: "http://gpu-1:8091", models: ["wan-2.5"] };
const withEngines = (...engines: object[]) => ({ engines: [gpu, ...engines] });

test.each([
  ["not JSON", /is not JSON/],
  ['{ "engines": [],\n  oops }', /is not JSON at line 2, column 3\.$/],
  [[], /it must be an object\.$/],
  [{}, /engines is missing\.$/],
  [{ engines: [] }, /engines must be a list of at least one engine\.$/],
  [withEngines({}), /engines\[1\]\.kind or url is missing\.$/],
  [withEngines({ ...gpu, jobs: 0 }), /engines\[1\]\.jobs must be a whole number from 1 to 1000\.$/],
  [withEngines({ ...gpu, jobs: "4" }), /engines\[1\]\.jobs must be a whole number/],
  [withEngines({ ...gpu, job: 4 }), /engines\[1\]\.job is not a field of this file\. Did you mean jobs\?$/],
  [withEngines({ kind: "vllm-omi" }), /engines\[1\]\.kind must be one of preview, .*\. Did you mean vllm-omni\?$/],
  [withEngines({ kind: "sglang" }), /engines\[1\] needs a URL\.$/],
  [withEngines({ url: "gpu-1:8091" }), /engines\[1\]\.url must be an http\(s\) URL\.$/],
  [withEngines({ url: "http://gpu-2", models: [] }), /engines\[1\]\.models must be a list of at least one model\.$/],
  [
    withEngines({ url: "http://gpu-1:8091/v1/", models: ["ray-3", "wan-2.5"] }),
    /engines\[1\] and engines\[0\] are the same engine: http:\/\/gpu-1:8091 for wan-2\.5\.$/,
  ],
  [
    withEngines({ url: "http://gpu-2", models: ["kling-1.6-elements"] }),
    /engines\[1\] cannot serve kling-1\.6-elements/,
  ],
  [withEngines({ kind: "comfyui", url: "http://gpu-2", models: ["ray-3"] }), /engines\[1\]\.workflow is missing\.$/],
  [
    withEngines({ kind: "ai-sdk", models: ["ray-3"], package: "../x", upstream_model: "y" }),
    /engines\[1\]\.package must be the name of an npm package, not a path\.$/,
  ],
  [withEngines({ kind: "preview", key_env: "KEY" }), /engines\[1\]\.key_env is not for the kind preview/],
  [withEngines({ ...gpu, key_env: "A", key_file: "b" }), /engines\[1\]\.key_file and key_env cannot be combined\.$/],
  [{ ...withEngines(), keep: "a month" }, /keep must be a time such as 30d/],
  [{ ...withEngines(), port: 70_000 }, /port must be a whole number from 0 to 65535\.$/],
  [{ ...withEngines(), prot: 80 }, /prot is not a field of this file\. Did you mean port\?$/],
  [{ ...withEngines(), database: "postgres://u:canary@db" }, /database is not a field/],
])("%j is refused by its path", (content, says) => {
  expect(() => read(content)).toThrow(says);
});

const canary = "sk-canary-0123456789abcdef";

test.each([
  withEngines({ ...gpu, key: canary }),
  withEngines({ ...gpu, [canary]: true }),
  withEngines({ ...gpu, key_env: canary }),
  withEngines({ ...gpu, key_env: 5, jobs: canary }),
  withEngines({ kind: canary }),
  withEngines({ url: canary }),
  withEngines({ url: `http://me:${canary}@gpu-1` }),
  withEngines(
    { kind: "openrouter", models: ["minimax"], upstream_model: canary },
    { kind: "openrouter", models: ["minimax"], upstream_model: canary },
  ),
  { ...withEngines(), keep: canary },
  `{ "engines": [{ "key_env": "${canary}" ]`,
])("%j: what may be a key in the wrong place is not repeated", (content) => {
  let shown = "";
  try {
    read(content);
  } catch (error) {
    shown = String(error) + JSON.stringify(error);
  }
  expect(shown).not.toBe("");
  expect(shown).not.toContain("canary");
});

test("engines are read with their jobs, and other fields like their flags", () => {
  const { engines, options } = read({
    engines: [
      { kind: "vllm-omni", url: "http://gpu-1:8091/v1", models: ["wan-2.5", "my-wan"], jobs: 3, upstream_model: "wan" },
      { kind: "ai-sdk", package: "@ai-sdk/fal", models: ["ray-3"], upstream_model: "fal-ai/ray", jobs: 2 },
      { kind: "preview" },
    ],
    port: 0,
    allow_remote: false,
    refunds: false,
    media_redirect: true,
    media: "s3://videos/team",
    credits_per: { "my-wan": 4 },
    allow_network: [{ network: "10.0.0.0/8" }],
  });
  expect(engines).toMatchObject([
    { name: "http://gpu-1:8091", models: ["wan-2.5", "my-wan"], jobs: 3, upstreamModel: "wan" },
    { name: "@ai-sdk/fal", packageName: "@ai-sdk/fal", jobs: 2, upstreamModel: "fal-ai/ray" },
    { name: "preview", models: undefined, jobs: undefined },
  ]);
  expect(options).toEqual({
    port: "0",
    refunds: false,
    mediaRedirect: true,
    media: "s3://videos/team",
    creditsPer: ["my-wan=4"],
    allowNetwork: [{ network: "10.0.0.0/8", accounts: [] }],
  });
});

test("each other field is a flag of serve, by the same name", async () => {
  const { stdout } = await (await createWorld()).vidgen("help", "serve", "--json");
  const flags: string[] = JSON.parse(stdout).flags.map(({ long }: { long: string }) =>
    long.replace("--no-refunds", "--refunds"),
  );
  const { $schema: _, engines: __, ...fields } = configSchema.shape;
  const names = Object.keys(fields).map((name) => `--${name.replaceAll("_", "-")}`);
  expect(names.filter((name) => !flags.includes(name))).toEqual([]);
});

test("the schema that help prints is the program's, and the example in the docs is valid", async () => {
  const [, example = ""] = /```json\n([^`]*)```/.exec(readPage("serve-config").text) ?? [];
  const { stdout: schema } = await (await createWorld()).vidgen("help", "serve-config", "--json");
  expect(JSON.parse(schema)).toEqual(z.toJSONSchema(configSchema));
  expect(read(example).engines).toHaveLength(4);
});
