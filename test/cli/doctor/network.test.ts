import { expect, test } from "vitest";
import { proxyFor } from "../../../src/cli/doctor/network.ts";

const HTTPS_PROXY = "http://proxy.example:3128";
const other = "http://other.example:80";
type Env = Record<string, string>;
const cases: [string, Env, string | undefined][] = [
  ["https://api.video.example", { HTTPS_PROXY }, HTTPS_PROXY],
  ["https://api.video.example", {}, undefined],
  ["https://api.video.example", { HTTP_PROXY: other }, "http://other.example"],
  ["https://api.video.example", { HTTPS_PROXY, https_proxy: other }, "http://other.example"],
  ["https://api.video.example", { HTTPS_PROXY, https_proxy: "" }, HTTPS_PROXY],
  ["https://api.video.example", { HTTPS_PROXY, NO_PROXY: "*" }, undefined],
  ["https://api.video.example", { HTTPS_PROXY, NO_PROXY: "x.example, video.example" }, undefined],
  ["https://api.video.example", { HTTPS_PROXY, no_proxy: "*.video.example" }, undefined],
  ["https://api.video.example", { HTTPS_PROXY, NO_PROXY: "video.example:8443" }, HTTPS_PROXY],
  ["https://api.video.example:8443", { HTTPS_PROXY, NO_PROXY: "video.example:8443" }, undefined],
  ["https://myvideo.example", { HTTPS_PROXY, NO_PROXY: "video.example" }, HTTPS_PROXY],
  ["https://127.0.0.1:8787", { HTTPS_PROXY }, undefined],
  ["http://127.0.0.2:8787", { HTTP_PROXY: HTTPS_PROXY }, undefined],
  ["http://localhost:8787", { HTTP_PROXY: other }, undefined],
  ["https://api.video.example", { HTTPS_PROXY: "http://ann:secret@proxy.example:3128" }, HTTPS_PROXY],
  ["https://api.video.example", { HTTPS_PROXY: "not an address" }, "an invalid URL"],
];
test.each(cases)("%s with %j goes through %s", (address, env, proxy) => {
  expect(proxyFor(address, env)).toBe(proxy);
});
