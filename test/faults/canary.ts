import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { RequestError } from "../../src/io.ts";
import { type Run, type RunOptions, vidgen } from "./client.ts";
import type { Goal } from "./goal.ts";
import { passingMedia } from "./media-faults.ts";
import { createService, type Plan, type Service } from "./server.ts";
import type { StartFault } from "./start-faults.ts";
import { head, listen, reply, send } from "./wire.ts";
import { inFolder } from "./work.ts";

/** A key with everything in it that has another form somewhere: in JSON, in an address, in base64. */
const canary = 'vk_live_Ca"n\\a/r+y%25&=7f3a91c04d5e';

const forms = {
  itself: canary,
  "as JSON": JSON.stringify(canary).slice(1, -1),
  "percent-encoded": encodeURIComponent(canary),
  "in base64": Buffer.from(canary).toString("base64"),
};

/** What a careless service says of a key: the whole of it, in several forms. */
const gossip = `the key Bearer ${canary} (${forms["percent-encoded"]}, ${forms["in base64"]}) is known`;

type Scene = { plan?: Plan; options?: RunOptions; argv?: (prompt: string) => string[] };

function starts(executes: boolean, status: number, body: string, headers: Record<string, string> = {}): Scene {
  const fault: StartFault = { executes, act: ({ socket }) => reply(socket, status, body, headers) };
  return { plan: { starts: Array.from({ length: 60 }, () => fault) } };
}

function polls(status: number, body: object | string, headers: Record<string, string> = {}): Scene {
  const said = (id: string) => (typeof body === "string" ? body : JSON.stringify({ id, ...body }));
  return {
    plan: {
      polls: Array.from(
        { length: 4 },
        () =>
          ({ socket, generated }) =>
            reply(socket, status, said(generated.id), headers),
      ),
    },
  };
}

const error = JSON.stringify({ error: { message: gossip, code: canary } });

function scenesOf(service: Service, elsewhere: string): Record<string, Scene> {
  return {
    "all is well": {},
    "refused with the key": starts(false, 400, error),
    "401 with the key": starts(false, 401, error),
    "402 with the key": starts(false, 402, error),
    "put off with the key": starts(false, 429, error),
    "500 with the key": starts(true, 500, error),
    "plain text with the key": starts(true, 503, gossip, { "Content-Type": "text/plain" }),
    "200 that says no": starts(false, 200, JSON.stringify({ success: false, error: gossip })),
    "the start redirected elsewhere": starts(true, 307, "", { Location: `${elsewhere}/api/generate` }),
    "the key in a header that is no header": {
      plan: {
        starts: [
          { executes: true, act: async ({ socket }) => void socket.end(`${head(200, { [`x ${canary}`]: canary })}{}`) },
        ],
      },
    },
    "401 with the key at a look": polls(401, error),
    "500 with the key at a look": polls(500, error),
    "a state that is the key": polls(200, { status: gossip }),
    "failed because of the key": polls(200, { status: "failed", error: gossip }),
    "a look redirected elsewhere": polls(302, "", { Location: `${elsewhere}/api/generation-status` }),
    "the video redirected elsewhere": { plan: { media: passingMedia["a redirect to another origin"] } },
    "the video's address expired": { plan: { media: passingMedia["expired with 403"] } },
    "the key in the media's words": {
      plan: {
        media: ({ socket }) => reply(socket, 400, gossip, { Location: `${elsewhere}/?key=${canary.slice(0, 4)}` }),
      },
    },
    "media that breaks off with the key": {
      plan: {
        media: async ({ socket }) => {
          await send(socket, `HTTP/1.1 200 ${canary}\r\nContent-Length: x\r\n\r\n${gossip}`);
          socket.end();
        },
      },
    },
    "a callback address": { argv: (prompt) => ["generate", prompt, "--callback-url", `${elsewhere}/callback`] },
    "a crash that names the key": {
      options: { io: { sleep: async () => Promise.reject(new TypeError(`cannot read ${canary} of ${gossip}`)) } },
    },
    "no network, by its own words": {
      options: { io: { fetch: async () => Promise.reject(new RequestError(new Error(gossip), { sent: true })) } },
    },
    "a dry run": { argv: (prompt) => ["generate", prompt, "--dry-run"] },
    "one look": { argv: () => ["status", [...service.oracle.generations.keys()][0] ?? "none"] },
    "a login": { argv: () => ["login", "--with-token"], options: { io: { stdin: Readable.from([canary]) } } },
    list: { argv: () => ["list"] },
  };
}

/** Goal 10: the key goes to the service, and is seen nowhere else. */
export const secrecy: Goal = {
  number: 10,
  title: "a canary for a key",
  run: ({ random }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const strangers: string[] = [];
      const stranger = await listen({
        onRequest(request, socket) {
          strangers.push(`${request.method} ${request.path} ${request.headers.authorization}`);
          return reply(socket, 200, "{}");
        },
      });
      const elsewhere = `http://127.0.0.1:${stranger.port}`;
      const home = join(folder, "home");
      const faults: string[] = [];
      let runs = 0;
      let seen = 0;
      const search = (where: string, text: string) => {
        for (const [form, secret] of Object.entries(forms)) {
          if (!text.includes(secret)) continue;
          seen++;
          faults.push(`the key ${form} in ${where}: ${text.slice(Math.max(0, text.indexOf(secret) - 200))}`);
        }
      };
      const go = async (name: string, scene: Scene, flags: string[], env: Record<string, string>): Promise<Run> => {
        const prompt = `${name} ${flags.join("")}`;
        service.plan(prompt, scene.plan ?? {});
        const argv = scene.argv?.(prompt) ?? ["generate", prompt, "-o", `${folder}/videos/`];
        const run = await vidgen([...argv, ...flags], { VIDGEN_HOME: home, ...env }, { speed: 400, ...scene.options });
        runs++;
        search(`stdout of ${prompt}`, run.stdout);
        search(`stderr of ${prompt}`, run.stderr);
        return run;
      };
      const names = Object.keys(scenesOf(service, elsewhere));
      const flags = [[], ["--verbose"], ["--json"], ["--json", "--verbose"]];
      for (const each of flags)
        for (const name of names) {
          const scene = scenesOf(service, elsewhere)[name] as Scene;
          await go(name, scene, each, { VIDGEN_BASE_URL: service.baseUrl, VIDGEN_API_KEY: canary });
        }
      // The login has saved it for the service: another origin gets none.
      const saved = await go("the saved key", {}, [], { VIDGEN_BASE_URL: service.baseUrl });
      if (saved.code !== 0) faults.push(`the saved key is not used: exit ${saved.code}: ${saved.stderr}`);
      const { code } = await go("the saved key elsewhere", {}, [], { VIDGEN_BASE_URL: elsewhere });
      if (code !== 3) faults.push(`the saved key for another origin: exit ${code}`);
      const files = readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name !== "config.json")
        .map((entry) => join(entry.parentPath, entry.name));
      for (const file of files) search(file, `${file} ${readFileSync(file, "latin1")}`);
      const outside = service.oracle.requests.filter(({ origin }) => origin !== "api");
      const leaks = [
        ...outside.filter(({ authorization }) => authorization !== undefined).map(({ path }) => path),
        ...strangers,
      ];
      for (const leak of leaks) faults.push(`another origin was sent ${leak}`);
      const authorized = service.oracle.requests.filter(({ authorization }) => authorization?.includes(canary)).length;
      if (authorized === 0 || outside.length === 0) faults.push("the canary did not sing: nothing was proven");
      await Promise.all([service.close(), stranger.close()]);
      return {
        figures:
          `${names.length} scenes, ${runs} runs, ${files.length} files: ${seen} occurrences; ` +
          `${authorized} requests with the key to the service, ${leaks.length} of ${outside.length} elsewhere`,
        target: "0 occurrences, 0 elsewhere",
        faults,
      };
    }),
};
