import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { hasSwift } from "../../needs.ts";
import { testMediaStore } from "./contract.ts";
import { sha256 } from "./fake-s3.ts";
import { openSwift } from "./swift.ts";
import { content, errorOf, mp4, openAddress, openVideos } from "./videos.ts";

const { signal } = new AbortController();

describe("OpenStack Swift", { skip: !hasSwift }, () => {
  testMediaStore(async () => ({ place: `s3://videos/a/${randomUUID()}`, env: await openSwift() }));

  test("does not store content with a wrong digest", async () => {
    const { videos, made, keep } = await openVideos(await openSwift());
    const error = await errorOf(videos.keep({ ...made, etag: `"${sha256("another")}"` }, signal));
    expect(error.message).toMatch(/^s3:\/\/videos\/team responded to a PUT with HTTP 400 \(\w+\)$/);
    expect(await videos.read("fox.aa.mp4")).toBeUndefined();
    expect((await keep()).file).toBe("fox.aa.mp4");
  });

  test.each([
    ["another key", { AWS_SECRET_ACCESS_KEY: "another" }, "HTTP 403 (SignatureDoesNotMatch)"],
    ["another region", { AWS_REGION: "eu-west-1" }, "HTTP 400 (AuthorizationHeaderMalformed)"],
  ])("%s: neither checked nor kept", async (_, env, reason) => {
    const { videos, keep } = await openVideos({ ...(await openSwift()), ...env });
    expect((await errorOf(videos.check(signal))).message).toBe(`s3://videos/team responded to a PUT with ${reason}`);
    expect((await errorOf(keep())).message).toBe(`s3://videos/team responded to a PUT with ${reason}`);
  });

  test("does not store anything without permission to write", async () => {
    const { keep } = await openVideos({ ...(await openSwift()), AWS_ACCESS_KEY_ID: "test:stranger" });
    expect((await errorOf(keep())).message).toBe("s3://videos/team responded to a PUT with HTTP 403 (AccessDenied)");
  });

  test("with redirects, the store delivers the video, whole or in part, to anybody who has the address", async () => {
    const env = await openSwift();
    const { ask, troubles } = await openAddress("s3://videos/redirected", env, true);
    const { incoming } = await ask(mp4);
    expect(incoming.statusCode).toBe(302);
    expect(incoming.headers["cache-control"]).toBe("no-store");
    const location = incoming.headers.location ?? "";
    expect(location.startsWith(`${env.AWS_ENDPOINT_URL}/videos/redirected/`)).toBe(true);
    expect(location).not.toContain(env.AWS_SECRET_ACCESS_KEY);
    const whole = await fetch(location);
    expect([whole.status, whole.headers.get("Content-Type"), await whole.text()]).toEqual([200, "video/mp4", content]);
    const part = await fetch(location, { headers: { Range: "bytes=4-" } });
    expect([part.status, await part.text()]).toEqual([206, content.slice(4)]);
    expect((await fetch(location.replace("X-Amz-Expires=900", "X-Amz-Expires=90000"))).status).toBe(403);
    expect(troubles).toEqual([]);
  });
});
