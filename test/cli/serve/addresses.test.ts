import { describe, expect, test } from "vitest";
import { readAddresses } from "../../../src/cli/serve/addresses.ts";

const usual = { host: "127.0.0.1", port: "8787", mediaPort: "8788" };
const api = "https://video.example";
const media = "https://video.example/videos";

test("public addresses lose the slash at their end; that of the videos may have a path", () => {
  const { publicUrls } = readAddresses({ ...usual, publicUrl: `${api}/`, publicMediaUrl: `${media}//` });
  expect(publicUrls).toEqual({ api, media });
  expect(readAddresses(usual).publicUrls).toEqual({ api: undefined, media: undefined });
});

describe("whether callbacks may reach this machine", () => {
  test.each([
    [{}, true],
    [{ name: "localhost" }, true],
    [{ publicUrl: "http://localhost:9000", publicMediaUrl: "http://127.0.0.1:9001" }, true],
    [{ name: "tunnel.example" }, false],
    [{ publicUrl: api, publicMediaUrl: "http://localhost:9001" }, false],
    [{ publicUrl: "http://localhost:9000", publicMediaUrl: media }, false],
    [{ host: "10.0.0.5", allowRemote: true as const }, false],
  ])("%j: %s", (flags, isLoopback) => {
    expect(readAddresses({ ...usual, ...flags }).isLoopback).toBe(isLoopback);
  });
});

test("with public addresses, a name is not needed to listen at all addresses", () => {
  const flags = { ...usual, host: "0.0.0.0", allowRemote: true as const };
  expect(() => readAddresses(flags)).toThrow("Other machines cannot connect to 0.0.0.0.");
  expect(readAddresses({ ...flags, publicUrl: api, publicMediaUrl: media }).host).toBe("0.0.0.0");
});

test.each([
  [{ publicUrl: api }, /needed together/],
  [{ publicMediaUrl: media }, /needed together/],
  [{ cors: ["*"] }, /--cors must be an http\(s\) URL/],
  [{ cors: [`${api}/app`] }, /--cors must be the origin of a site, without a path/],
  [
    { publicUrl: `${api}/vidgen`, publicMediaUrl: media },
    /--public-url must not have a path: the service needs a host name of its own/,
  ],
  [{ publicUrl: "video.example", publicMediaUrl: media }, /--public-url must be an http\(s\) URL/],
  [{ publicUrl: "", publicMediaUrl: media }, /--public-url must be an http\(s\) URL/],
  [{ publicUrl: api, publicMediaUrl: "s3://canary" }, /--public-media-url must be an http\(s\) URL/],
  [{ publicUrl: "https://user:canary@video.example", publicMediaUrl: media }, /must not have a user name/],
  [{ publicUrl: api, publicMediaUrl: `${media}?key=canary` }, /must not have .* \?/],
  [{ publicUrl: api, publicMediaUrl: `${media}#canary` }, /must not have .* #/],
])("%j is refused, without a word of what may be secret", (flags, says) => {
  const read = () => readAddresses({ ...usual, ...flags });
  expect(read).toThrow(says);
  expect(read).not.toThrow("canary");
});
