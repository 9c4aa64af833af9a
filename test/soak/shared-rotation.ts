import { type Goal, portion } from "../faults/goal.ts";
import { pause } from "../faults/wire.ts";
import { cookieOf } from "../server/page/sign-in.ts";
import { type Process, whileSharing } from "./shared-processes.ts";

const processCount = 3;
/** So long a process may go by what it has read before. */
const limitMs = 5_000;
const credits = 1_000;

/** What signed in before a rotation. */
type Access = { key: string; token: string; session: string };

/** Goal 28: once the owner's key is rotated, what signed in before is refused by every process, and what is new is accepted. */
export const sharedRotation: Goal = {
  number: 28,
  title: `rotations of the owner's key beside ${processCount} processes`,
  run: ({ random, share }) =>
    whileSharing(random, async ({ open, books }) => {
      const processes = await open(processCount, "--credits", `${credits}`);
      const count = portion(10, share);
      const faults: string[] = [];
      let current = await accessOf(processes[0] as Process);
      for (let turn = 1; turn <= count; turn++) {
        const old = current;
        for (const process of processes) faults.push(...(await judge(process, old, { isAccepted: true })));
        const [rotated] = (await open(1, "--rotate")) as [Process];
        const rotatedAtMs = performance.now();
        current = await accessOf(rotated);
        const others = [...processes, rotated];
        // Each may have read the secret just before.
        const isOver = async () =>
          performance.now() > rotatedAtMs + limitMs || (await findAccepted(others, old)).length === 0;
        while (!(await isOver())) await pause(100);
        for (const process of others) {
          faults.push(...(await judge(process, old, { isAccepted: false })));
          faults.push(...(await judge(process, current, { isAccepted: true })));
        }
        await rotated.end();
      }
      const { balance } = await books(0);
      if (balance !== credits) faults.push(`the owner has ${balance} credits`);
      return {
        figures: `${count} rotations: key, link and session at ${processCount + 1} processes`,
        target: `the old ones refused by all within ${limitMs / 1_000} s, the new ones accepted`,
        faults,
      };
    }),
};

async function accessOf({ announced }: Process): Promise<Access> {
  const { api_key, page_url, base_url } = announced;
  const token = new URL(page_url ?? base_url).search;
  // By the key: the link signs in once, and is to stay unused.
  const body = new URLSearchParams({ key: api_key });
  const cookie = cookieOf(await fetch(base_url, { method: "POST", headers: { Origin: base_url }, body }));
  return { key: api_key, token, session: cookie.replace(/^[^=]*=/, "") };
}

async function judge(process: Process, access: Access, { isAccepted }: { isAccepted: boolean }): Promise<string[]> {
  const statuses = await ask(process, access);
  return Object.entries(statuses)
    .filter(([, status]) => (status !== 401) !== isAccepted)
    .map(([what, status]) => `the ${isAccepted ? "new" : "old"} ${what} is answered with ${status}`);
}

/** The processes that accept any of it. */
async function findAccepted(processes: readonly Process[], access: Access): Promise<Process[]> {
  const refused = await Promise.all(processes.map((process) => judge(process, access, { isAccepted: false })));
  return processes.filter((_, index) => refused[index]?.length !== 0);
}

async function ask({ announced }: Process, { key, token, session }: Access) {
  const { base_url } = announced;
  const statusOf = async (path: string, headers: Record<string, string> = {}) => {
    const reply = await fetch(base_url + path, { headers });
    await reply.arrayBuffer();
    return reply.status;
  };
  return {
    key: await statusOf("/api/generation-status", { Authorization: `Bearer ${key}` }),
    link: await statusOf(`/${token}`),
    session: await statusOf("/", { Cookie: `vidgen_page_${new URL(base_url).port}=${session}` }),
  };
}
