import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Experimental_VideoModelV4 as VideoModel } from "@ai-sdk/provider";
import openapiTS, { astToString } from "openapi-typescript";
import { expect, expectTypeOf, test } from "vitest";
import type { VidgenModel } from "../../dist/ai-sdk.js";
import type { SdkModel } from "../../src/server/engines/ai-sdk/package.ts";
import { readDescription } from "../server/api/described.ts";
import { baseUrl, createTestService } from "../server/service.ts";

// Types are checked here for the tests of this folder: `npm test` runs `tsc` without what only they need.

const folder = fileURLToPath(new URL(".", import.meta.url));
const tsc = fileURLToPath(new URL("../../node_modules/typescript/bin/tsc", import.meta.url));

test("the types of this folder are right, those of a client that is generated from the description included", async () => {
  const { api } = await createTestService();
  const types = await openapiTS(JSON.stringify(await readDescription(api, baseUrl)));
  writeFileSync(`${folder}openapi-types.d.ts`, astToString(types));
  // A failure has the compiler's words as its output.
  const checked = promisify(execFile)(process.execPath, [tsc, "-p", folder]).catch((error) => error);
  expect((await checked).stdout).toBe("");
});

// `tsc` of the test above checks these: they say nothing when they run.
test("vidgen's own types of a video model fit those of the AI SDK", () => {
  type Theirs = Required<Pick<VideoModel, "provider" | "doStart" | "doStatus">>;
  // The SDK takes vidgen's model, whose methods take whatever the SDK may call them with.
  expectTypeOf<VidgenModel>().toExtend<VideoModel>();
  expectTypeOf<Parameters<Theirs["doStart"]>>().toExtend<Parameters<VidgenModel["doStart"]>>();
  expectTypeOf<Parameters<Theirs["doStatus"]>>().toExtend<Parameters<VidgenModel["doStatus"]>>();
  // A model of a package can be called as vidgen calls it.
  expectTypeOf<Theirs>().toExtend<SdkModel>();
  expectTypeOf<Parameters<SdkModel["doStart"]>>().toExtend<Parameters<Theirs["doStart"]>>();
  expectTypeOf<Parameters<SdkModel["doStatus"]>>().toExtend<Parameters<Theirs["doStatus"]>>();
});
