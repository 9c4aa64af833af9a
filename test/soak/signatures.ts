import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { type Goal, portion } from "../faults/goal.ts";
import { inFolder } from "../faults/work.ts";
import { createClient, startedId, whileServing } from "./serve.ts";

type Attempt = { id: string; isVerified: boolean; isForgeryRefused: boolean };

const headersOf = (headers: NodeJS.Dict<string | string[]>) =>
  Object.fromEntries(
    ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, String(headers[name])]),
  );

/** Whether the package takes it for what the holder of the secret has sent. */
function isAccepted(webhook: Webhook, body: string, headers: Record<string, string>): boolean {
  try {
    webhook.verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

/** Goal 9: what the service signs, an independent implementation of Standard Webhooks accepts, over retries too. */
export const signatures: Goal = {
  number: 9,
  title: "signatures checked by the standardwebhooks package",
  run: ({ share }) =>
    inFolder((folder) =>
      whileServing(join(folder, "home"), [], async (announced) => {
        const count = portion(60, share, 3);
        const webhook = new Webhook(announced.webhook_secret);
        const attempts = new Map<string, Attempt[]>();
        const receiver = createServer(async (request, response) => {
          let body = "";
          for await (const chunk of request.setEncoding("utf8")) body += chunk;
          const { id: generation } = JSON.parse(body) as { id: string };
          const headers = headersOf(request.headers);
          const before = attempts.get(generation) ?? [];
          const isForgeryRefused = !isAccepted(webhook, body.replace('"status"', '"Status"'), headers);
          const isVerified = isAccepted(webhook, body, headers);
          attempts.set(generation, [...before, { id: headers["webhook-id"] ?? "", isVerified, isForgeryRefused }]);
          // The first attempt is turned down, in one of the ways that count as that.
          response.writeHead(before.length === 0 ? ([500, 302, 404][attempts.size % 3] ?? 500) : 204).end();
        }).listen(0, "127.0.0.1");
        await once(receiver, "listening");
        const callback_url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
        const client = createClient(announced, 8);
        const ids: string[] = [];
        for (let i = 0; i < count; i++) {
          const prompt = i % 10 === 0 ? `a fox ${i}` : `a fox ${i} [fail]`;
          ids.push(startedId(await client.start({ prompt, model: "wan-2.5", duration: 0.1, callback_url })));
        }
        const isThrough = () => ids.every((id) => (attempts.get(id)?.length ?? 0) >= 2);
        for (let waits = 0; !isThrough() && waits < 600; waits++) await sleep(100);
        client.close();
        receiver.closeAllConnections();
        receiver.close();
        const faults = ids.flatMap((id) => faultsOf(id, attempts.get(id) ?? []));
        const all = [...attempts.values()].flat();
        return {
          figures: `${all.filter(({ isVerified }) => isVerified).length} of ${all.length} attempts for ${count} callbacks accepted`,
          target: "all of them; none with a changed body",
          faults,
        };
      }),
    ),
};

function faultsOf(generation: string, attempts: Attempt[]): string[] {
  const faults: string[] = [];
  if (attempts.length !== 2) faults.push(`${generation}: ${attempts.length} attempts`);
  if (new Set(attempts.map(({ id }) => id)).size > 1) faults.push(`${generation}: several webhook-ids`);
  if (!attempts.every(({ isVerified }) => isVerified)) faults.push(`${generation}: a signature that is not accepted`);
  if (!attempts.every(({ isForgeryRefused }) => isForgeryRefused)) faults.push(`${generation}: a forgery is accepted`);
  return faults;
}
