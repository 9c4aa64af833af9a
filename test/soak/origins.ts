import { join } from "node:path";
import { type Goal, tally } from "../faults/goal.ts";
import { inFolder } from "../faults/work.ts";
import { errorCode, readReplies, say } from "./raw.ts";
import { whileServing } from "./serve.ts";

/** Header lines that come from this machine's own programs and pages; %p is the service's port. */
const good = [
  ["Host: 127.0.0.1:%p"],
  ["Host: localhost:%p"],
  ["Host: LOCALHOST:%p"],
  ["hOsT:   127.0.0.1:%p  "],
  ["Host: 127.0.0.1:%p", "Origin: http://127.0.0.1:%p"],
  ["Host: localhost:%p", "Origin: http://localhost:%p"],
];

/** Header lines that come from somewhere else, or that leave open where from. */
const bad = [
  ["Host: evil.example"],
  ["Host: evil.example:%p"],
  ["Host: 127.0.0.1.evil.example:%p"],
  ["Host: localhost.evil.example:%p"],
  ["Host: evil-localhost:%p"],
  ["Host: localhost:1"],
  ["Host: localhost"],
  ["Host: 127.0.0.2:%p"],
  ["Host: 0.0.0.0:%p"],
  ["Host: 2130706433:%p"],
  ["Host: [::1]:%p"],
  ["Host: user@localhost:%p"],
  ["Host: localhost:%p,evil.example"],
  ["Host: localhost:%p", "Host: evil.example"],
  ["Host: evil.example", "Host: localhost:%p"],
  ["Host:"],
  ["X-Forwarded-Host: localhost:%p", "Host: evil.example"],
  ["Accept: */*"],
  ["Host: 127.0.0.1:%p", "Origin: http://evil.example"],
  ["Host: 127.0.0.1:%p", "Origin: https://127.0.0.1:%p"],
  ["Host: 127.0.0.1:%p", "Origin: http://127.0.0.1:1"],
  ["Host: 127.0.0.1:%p", "Origin: null"],
  ["Host: 127.0.0.1:%p", "Origin: "],
  ["Host: 127.0.0.1:%p", "Origin: http://localhost:%p.evil.example"],
  ["Host: 127.0.0.1:%p", "Origin: file://"],
];

/** Request targets that name a host of their own. */
const targets = [
  "http://evil.example/api/generation-status?id=x",
  "http://127.0.0.1:%p/",
  "//evil.example/",
  "*",
  "evil",
];

/** Goal 5: only what was meant for this service, by a program or a page of its own, gets in. */
export const origins: Goal = {
  number: 5,
  title: "forms of Host and Origin",
  run: () =>
    inFolder((folder) =>
      whileServing(join(folder, "home"), [], async ({ base_url, media_url, api_key }) => {
        const faults: string[] = [];
        const codes: string[] = [];
        const ask = async (base: string, lines: string[], target: string) => {
          const port = new URL(base).port;
          const key = base === base_url ? [`Authorization: Bearer ${api_key}`] : [];
          const head = [`GET ${target} HTTP/1.1`, ...lines, ...key, "Connection: close"].join("\r\n");
          const { text } = await say(Number(port), Buffer.from(`${head.replaceAll("%p", port)}\r\n\r\n`));
          if (/access-control/i.test(text)) faults.push(`a CORS header for ${lines}`);
          return readReplies(text).replies[0] ?? { status: 0, head: "", body: text };
        };
        for (const base of [base_url, media_url]) {
          for (const lines of good) {
            const { status } = await ask(base, lines, "/api/generation-status?id=x");
            if (status !== 404) faults.push(`${lines}: a good one is answered with ${status}`);
          }
          const refused = [
            ...bad.map((lines) => ({ lines, target: "/api/generation-status?id=x" })),
            ...targets.filter((target) => !target.startsWith("//")).map((target) => ({ lines: good[0] ?? [], target })),
          ];
          for (const { lines, target } of refused) {
            const reply = await ask(base, lines, target);
            codes.push(String(reply.status));
            const isRefused = [400, 403].includes(reply.status) && errorCode(reply) !== undefined;
            if (!isRefused) faults.push(`${target} ${lines}: ${reply.status} ${reply.body.slice(0, 200)}`);
          }
        }
        const count = bad.length + targets.length - 1;
        return {
          figures: `${good.length} good ones served, ${count} bad ones at two addresses: ${tally(codes)}`,
          target: "20 forms or more, every bad one 400 or 403",
          faults,
        };
      }),
    ),
};
