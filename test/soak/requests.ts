import { readdirSync, readFileSync } from "node:fs";
import { type Goal, portion, tally } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { inFolder, side } from "../faults/work.ts";
import { type Malformed, sampleMalformed } from "./malformed-requests.ts";
import { errorCode, type Heard, portOf, readReplies, say } from "./raw.ts";
import { type Announced, type Client, createClient, startedId, whileServing } from "./serve.ts";

const atOnce = 16;
const mostGrowthMb = 60;

type Target = Announced & { id: string };

/** Goal 6: whatever is wrong with a request, the service says so and goes on. */
export const requests: Goal = {
  number: 6,
  title: "malformed requests",
  run: ({ random, share }) =>
    inFolder((home) =>
      whileServing(home, ["--credits", "1000000"], async (announced, { pid }) => {
        const client = createClient(announced, 1);
        const started = await client.start({ prompt: "a fox [fail]", model: "sora-2" });
        const target = { ...announced, id: startedId(started) };
        const seed = random.between(0, 2 ** 31 - 1);
        const codes: string[] = [];
        const faults: string[] = [];
        const send = async (malformed: Malformed) => {
          const { code, fault } = judge(malformed, await sendMalformed(malformed, target));
          codes.push(code);
          if (fault !== undefined) faults.push(`${malformed.kind}: ${fault}\n  ${show(malformed)}`);
          if (codes.length % 50 === 0) faults.push(...(await checkAlive(client, target)));
        };
        // Memory and files that the first ones take are those of a service that works.
        await side(sampleMalformed(portion(300, share), seed + 1), atOnce, send);
        const before = { ...readUse(pid), credits: await creditsLeft(client) };
        codes.length = 0;
        await side(sampleMalformed(portion(2_000, share), seed), atOnce, send);
        faults.push(...(await checkAlive(client, target)));
        const after = { ...(await settledUse(pid, before.files)), credits: (await creditsLeft(client)) + 10 };
        client.close();
        faults.push(...leaks(before, after));
        const growth = `${after.files - before.files} files and ${after.mb - before.mb} MB more in use`;
        return {
          figures: `${codes.length}: ${tally(codes.map(family))}; ${growth}; ${after.credits === before.credits ? 0 : "some"} smuggled`,
          target: "each a 4xx with the error shape, 0 5xx, 0 crashes, 0 leaks, 0 smuggled starts",
          faults,
        };
      }),
    ),
};

async function sendMalformed({ text, isCut = false, before = 0 }: Malformed, target: Target): Promise<Heard> {
  const port = portOf(target.base_url);
  const good = `GET /api/generation-status?id=<%i> HTTP/1.1\r\nHost: <%h>\r\nAuthorization: Bearer <%k>\r\n\r\n`;
  const whole = fill(good.repeat(before) + text, target);
  const isEnough = (heard: string) => finalReplies(heard).length > before;
  // A reply that is under way would be lost: what is whole is answered well before.
  return say(port, Buffer.from(whole, "latin1"), { endAfterMs: isCut ? 400 : undefined, isEnough });
}

function fill(text: string, { base_url, api_key, id }: Target): string {
  const { host } = new URL(base_url);
  const filled = text.replaceAll("<%h>", host).replaceAll("<%k>", api_key).replaceAll("<%i>", id);
  const body = filled.length - filled.indexOf("\r\n\r\n") - 4;
  return filled.replaceAll("<%n>", String(body));
}

function finalReplies(text: string) {
  return readReplies(text).replies.filter(({ status }) => status >= 200);
}

function judge({ before = 0 }: Malformed, { text, isClosed }: Heard): { code: string; fault?: string } {
  const replies = finalReplies(text);
  const last = replies[before];
  if (!last) return { code: "none", fault: `no reply${isClosed ? ", the connection was closed" : ""}: ${short(text)}` };
  const code = String(last.status);
  if (replies.length > before + 1) return { code, fault: `${replies.length} replies: ${short(text)}` };
  if (replies.slice(0, before).some(({ status }) => status !== 200))
    return { code, fault: `a right one was refused: ${short(text)}` };
  if (last.status < 400 || last.status > 499) return { code, fault: `answered with ${code}` };
  // At `/` is the page, which tells a browser without a session how to sign in.
  if (last.status === 401 && last.body.startsWith("<!doctype html>")) return { code };
  return errorCode(last) === undefined ? { code, fault: `another shape: ${short(last.body)}` } : { code };
}

async function checkAlive(client: Client, { id }: Target): Promise<string[]> {
  const answer = await client.status(id).catch((error) => ({ status: `${error}` }));
  return answer.status === 200 ? [] : [`a right request is answered with ${answer.status}`];
}

async function creditsLeft(client: Client): Promise<number> {
  const { json } = await client.start({ prompt: "a fox [fail]", model: "sora-2" });
  return Number(json.remaining_credits);
}

type Use = { files: number; mb: number };

/** The files and connections that a process has open, and its memory; nothing where the system does not tell. */
function readUse(pid: number): Use {
  try {
    const kb = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return { files: readdirSync(`/proc/${pid}/fd`).length, mb: Math.round(Number(kb) / 1024) };
  } catch {
    return { files: 0, mb: 0 };
  }
}

/** What lingers has its time. */
async function settledUse(pid: number, files: number): Promise<Use> {
  for (let turn = 0; turn < 30 && readUse(pid).files > files; turn++) await pause(100);
  return readUse(pid);
}

function leaks(before: Use & { credits: number }, after: Use & { credits: number }): string[] {
  const found: string[] = [];
  if (after.files > before.files) found.push(`${after.files} files are open, before there were ${before.files}`);
  if (after.mb > before.mb + mostGrowthMb) found.push(`${after.mb} MB are in use, before there were ${before.mb}`);
  if (after.credits !== before.credits) found.push("a start came through that nobody has sent");
  return found;
}

function family(code: string): string {
  return code === "none" ? "without a reply" : code;
}

function show({ text, before }: Malformed): string {
  return `${before === undefined ? "" : `after ${before}: `}${short(text)}`;
}

function short(text: string): string {
  return JSON.stringify(text.length > 500 ? `${text.slice(0, 500)}…` : text);
}
