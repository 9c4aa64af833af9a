import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { openExternally } from "../../../src/cli/terminal/opener.ts";

type Scene = { platform?: string; env?: Record<string, string>; code?: string };

async function open(place: string, { platform = "linux", env = { DISPLAY: ":0" }, code }: Scene = {}) {
  const launched: string[][] = [];
  const launch = async (command: string, args: string[]) => {
    if (code !== undefined) throw Object.assign(new Error(code), { code });
    launched.push([command, ...args]);
  };
  return { reason: await openExternally(place, { platform, env, launch }), launched };
}

const [file, url] = ["/tmp/a fox's $(touch hacked) & co.mp4", "https://media.example/a.mp4?x=1&y=2"];

test.each([
  ["linux", file, ["xdg-open", file]],
  ["linux", url, ["xdg-open", url]],
  ["freebsd", file, ["xdg-open", file]],
  ["darwin", file, ["open", file]],
  ["win32", file, ["rundll32.exe", "url.dll,FileProtocolHandler", pathToFileURL(file).href]],
  ["win32", url, ["rundll32.exe", "url.dll,FileProtocolHandler", url]],
])("%s opens %s, each argument by itself", async (platform, place, command) => {
  expect(await open(place, { platform })).toEqual({ reason: undefined, launched: [command] });
});

test.each([
  [{ CI: "true", DISPLAY: ":0" }, "linux", "CI"],
  [{ SSH_CONNECTION: "192.0.2.1 1 192.0.2.2 22", DISPLAY: ":0" }, "linux", "SSH"],
  [{ SSH_TTY: "/dev/pts/1" }, "darwin", "SSH"],
  [{}, "linux", "display"],
])("with %j on %s nothing is opened: %s", async (env, platform, word) => {
  expect(await open(file, { env, platform })).toEqual({ reason: expect.stringContaining(word), launched: [] });
});

test.each(["-a", "fox.mp4", "javascript:alert(1)", "ftp://media.example/a.mp4", ""])(
  "%j is not opened",
  async (place) => {
    expect(await open(place)).toEqual({ reason: expect.any(String), launched: [] });
  },
);

test("an opener that is missing is named", async () => {
  const { reason } = await open(file, { code: "ENOENT" });
  expect(reason).toBe("xdg-open could not be started (ENOENT)");
});
