import { expect, test } from "vitest";
import { createWorld } from "../../vidgen.ts";

const HTTPS_PROXY = "http://proxy.example:3128";
const other = "http://other.example:80";
type Env = Record<string, string>;
const cases: [string, Env, string, RegExp][] = [
  ["https://api.video.example", {}, "not used", /^api.video.example resolves$/],
  ["https://api.video.example", { HTTPS_PROXY }, `${HTTPS_PROXY}, from HTTPS_PROXY`, /^resolved by the proxy$/],
  ["https://api.video.example", { HTTP_PROXY: other }, "http://other.example, from HTTP_PROXY", /proxy/],
  ["https://api.video.example", { HTTPS_PROXY, https_proxy: other }, "http://other.example, from https_proxy", /./],
  ["https://api.video.example", { HTTPS_PROXY, NO_PROXY: "*" }, "not used", /^api.video.example resolves$/],
  ["https://api.video.example", { HTTPS_PROXY, NO_PROXY: "video.example" }, "not used", /^api.video.example resolves$/],
  [
    "https://api.video.example",
    { HTTPS_PROXY, NO_PROXY: "x.example" },
    `${HTTPS_PROXY}, from HTTPS_PROXY`,
    /^resolved by the proxy$/,
  ],
  [
    "https://api.video.example",
    { HTTPS_PROXY: "http://ann:secret@proxy.example:3128" },
    `${HTTPS_PROXY}, from HTTPS_PROXY`,
    /./,
  ],
  [
    "https://api.video.example",
    { HTTPS_PROXY: "ann:secret%6q@proxy.example" },
    "the user name or password in HTTPS_PROXY has a % that encodes nothing: write it as %25",
    /./,
  ],
  [
    "https://api.video.example",
    { ALL_PROXY: "socks5://ann:secret@127.0.0.1:1080" },
    "ALL_PROXY names a SOCKS proxy, which vidgen cannot use: it connects directly.",
    /^api.video.example resolves$/,
  ],
  ["http://localhost:8787", { HTTP_PROXY: other }, "not used", /./],
];
test.each(cases)("%s with %j: doctor says that the proxy is %s", async (address, env, says, dns) => {
  const world = await createWorld();
  Object.assign(world.env, env);
  const { stdout } = await world.vidgen("doctor", "--json", "--base-url", address);
  const checks: { name: string; says: string }[] = JSON.parse(stdout).checks;
  expect(checks.find(({ name }) => name === "proxy")?.says).toBe(says);
  const found = checks.find(({ name }) => name === "dns");
  if (found) expect(found.says).toMatch(dns);
});
