import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { DeliveryEvent } from "../../src/server/callbacks/delivery.ts";
import { createOutbound } from "../../src/server/outbound/outbound.ts";
import { openService, type RunningService } from "../../src/server/serve.ts";
import { type Goal, tally } from "../faults/goal.ts";
import { inFolder, side } from "../faults/work.ts";
import { realIo } from "../real-io.ts";
import { loopbackSpellings, namedForbidden, otherAddresses, unusable } from "../server/outbound/forbidden.ts";
import { fakeEngine } from "../server/service.ts";

const io = realIo();
const ends = ["refused at the start", "a failed generation", "a callback that was given up"];

/** What listens on this machine in the place of all that must not be reached. */
async function listenAndCount() {
  let connections = 0;
  const server = createServer((_, response) => void response.end("reached"));
  server.on("connection", () => connections++).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    async close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** A service that behaves as one that listens beyond loopback, and the end of each callback. */
async function openRemote(folder: string) {
  const events = new Map<string, DeliveryEvent>();
  const opened = await openService(
    {
      folder: await mkdtemp(join(folder, "service-")),
      pace: "fast",
      resume: "all",
      engines: [fakeEngine()],
      host: "127.0.0.1",
      isLoopback: false,
      ports: { api: 0, media: 0 },
      credits: 1_000_000,
      onNote: () => {},
      onDelivery: (event) => void events.set(event.generation, event),
    },
    io,
  );
  if (opened.kind === "held") throw new Error("the folder is new, and held");
  return { service: opened, events };
}

/** Asks for an image or a callback at an address, and says in words what became of it. */
async function tryAddress({ service, events }: Awaited<ReturnType<typeof openRemote>>, fields: object) {
  const ask = createAsker(service);
  const started = await ask("/api/generate", { prompt: "a fox", model: "wan-2.5", ...fields });
  if (started.status === 400) return ends[0];
  const { id } = started.json.data as { id: string };
  for (let looks = 0; looks < 200; looks++) {
    const { json } = await ask(`/api/generation-status?id=${id}`);
    const event = events.get(id);
    if ("imageUrl" in fields && / refused: |cannot be|not valid|is no |has no |not a PNG/.test(String(json.error)))
      return ends[1];
    // A forbidden target is a failed attempt of the usual schedule.
    if (event && !event.isDelivered && event.outcome.includes(" are refused: ")) return ends[2];
    await io.sleep(10);
  }
  return `no refusal: ${JSON.stringify(events.get(id))}`;
}

function createAsker({ address, api }: RunningService) {
  return async (path: string, body?: object) => {
    const headers = { Authorization: `Bearer ${address.api_key}`, "Content-Type": "application/json" };
    const init = body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers };
    const reply = await api(new Request(address.base_url + path, init));
    return { status: reply.status, json: (await reply.json()) as { data?: object; error?: unknown } };
  };
}

/** A name whose answers change from one look to the next: what is checked must be what is connected to. */
async function tryChangingNames(port: number): Promise<string[]> {
  const reached: string[] = [];
  const signal = new AbortController().signal;
  for (const [name, addresses] of Object.entries(namedForbidden)) {
    for (const first of ["8.8.8.8", "127.0.0.1"]) {
      let looks = 0;
      const lookup = async () =>
        (looks++ === 0 && first === "127.0.0.1" ? [first] : addresses).map((address) => ({
          address,
          family: address.includes(":") ? 6 : 4,
        }));
      const outbound = createOutbound({ allowLoopback: () => false, lookup, clock: io });
      const url = `http://${name}:${port}/`;
      const posting = outbound.post(url, { account: "local", headers: {}, body: "{}", signal });
      const getting = outbound.get(url, { account: "local", signal, maxBytes: 100 });
      for (const result of await Promise.allSettled([posting, getting]))
        if (result.status === "fulfilled" || result.reason?.isForbidden !== true)
          reached.push(`${name} (${first} first)`);
    }
  }
  return reached;
}

/** Goal 3: whatever a stranger names, the service connects to nothing that is not the open internet's. */
export const forbiddenAddresses: Goal = {
  number: 3,
  title: "forbidden callback and image addresses",
  run: () =>
    inFolder(async (folder) => {
      const listener = await listenAndCount();
      const remote = await openRemote(folder);
      const spellings = [...loopbackSpellings, ...otherAddresses, ...unusable];
      const outcomes: string[] = [];
      const faults: string[] = [];
      const tries = spellings.flatMap((spelling) => ["callback_url", "imageUrl"].map((field) => ({ spelling, field })));
      await side(tries, 8, async ({ spelling, field }) => {
        const outcome = (await tryAddress(remote, { [field]: spelling.replace("%p", String(listener.port)) })) ?? "";
        outcomes.push(outcome);
        if (!ends.includes(outcome)) faults.push(`${field} ${spelling}: ${outcome}`);
      });
      faults.push(...(await tryChangingNames(listener.port)));
      await remote.service.close(0);
      await listener.close();
      if (listener.connections() > 0) faults.push(`${listener.connections()} connections`);
      const names = Object.keys(namedForbidden).length;
      return {
        figures:
          `${spellings.length} spellings for callbacks and images each (${tally(outcomes)}), ${names} names that change ` +
          `their answer: ${listener.connections()} connections`,
        target: "60 or more, 0 connections",
        faults,
      };
    }),
};
