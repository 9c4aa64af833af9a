import { createConfig, lintFromString } from "@redocly/openapi-core";
import createClient from "openapi-fetch";
import { expect, test } from "vitest";
import { tinyMp4 } from "../mp4.ts";
import { readDescription } from "../server/api/described.ts";
import { aPng } from "../server/queue/pictures.ts";
import { apiKey, baseUrl, bearer, createTestService } from "../server/service.ts";
// `types.test.ts` makes it.
import type { paths } from "./openapi-types.d.ts";

test("redocly finds nothing to complain about", async () => {
  const { api } = await createTestService();
  const source = JSON.stringify(await readDescription(api, baseUrl));
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source, absoluteRef: "openapi.json", config });
  expect(problems.map(({ ruleId, message, location: [at] }) => `${ruleId}: ${message} ${at?.pointer}`)).toEqual([]);
});

test("a generated client starts a video, waits for it and downloads it", async () => {
  const { api, media, rest } = await createTestService();
  const client = createClient<paths>({ baseUrl, headers: bearer(apiKey), fetch: (request) => api(request) });
  const start = await client.POST("/api/generate", {
    params: { header: { "Idempotency-Key": "shot-1" } },
    body: { prompt: "a fox", model: "veo-3.1", duration: 4 },
  });
  expect(start.data?.remaining_credits).toBe(990);
  const query = { id: start.data?.data.id ?? "" };
  const look = () => client.GET("/api/generation-status", { params: { query } });
  expect((await look()).data).toMatchObject({ status: "processing", video_url: null });
  await rest();
  const { data } = await look();
  expect(data?.status).toBe("completed");
  const video = await media(new Request(data?.video_url ?? ""));
  expect(new Uint8Array(await video.arrayBuffer())).toEqual(tinyMp4("a fox"));
});

test("it starts a video from a file by /v1/videos, downloads it, and removes it", async () => {
  const { api, rest } = await createTestService();
  const client = createClient<paths>({ baseUrl, headers: bearer(apiKey), fetch: (request) => api(request) });
  const start = await client.POST("/v1/videos", {
    body: { prompt: "a fox", model: "veo-3.1", seconds: "4", input_reference: "fox.png" },
    bodySerializer({ input_reference: _, ...texts }) {
      const form = new FormData();
      for (const [name, value] of Object.entries(texts)) form.set(name, String(value));
      form.set("input_reference", new Blob([aPng(1, 1)]), "fox.png");
      return form;
    },
  });
  expect(start.data).toMatchObject({ status: "queued", seconds: "4" });
  const params = { path: { id: start.data?.id ?? "" } };
  const early = await client.GET("/v1/videos/{id}/content", { params, parseAs: "arrayBuffer" });
  expect(early.error?.error.code).toBe("not_ready");
  await rest();
  expect((await client.GET("/v1/videos/{id}", { params })).data?.status).toBe("completed");
  const video = await client.GET("/v1/videos/{id}/content", { params, parseAs: "arrayBuffer" });
  expect(new Uint8Array(video.data as ArrayBuffer)).toEqual(tinyMp4("a fox"));
  expect((await client.DELETE("/v1/videos/{id}", { params })).data?.deleted).toBe(true);
  const left = await client.GET("/v1/videos", { params: { query: { limit: 2 } } });
  expect(left.data?.data).toEqual([]);
});

test("a generated client reads why a request was refused, and its types refuse what can never be right", async () => {
  const { api } = await createTestService();
  const client = createClient<paths>({ baseUrl, headers: bearer(apiKey), fetch: (request) => api(request) });
  // @ts-expect-error: a prompt is required
  const refused = await client.POST("/api/generate", { body: { model: "veo-3.1" } });
  expect(refused.error?.error.message).toBe("prompt is missing");
  // @ts-expect-error: it takes an id
  const lost = await client.GET("/api/generation-status");
  expect(lost.error?.error.code).toBe("invalid_id");
});
